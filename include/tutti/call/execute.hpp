// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Executes a call by the algorithm of its plan.
#pragma once

#include <cstddef>
#include <source_location>
#include <type_traits>

#include "tutti/call/native.hpp"

namespace tutti::detail {

// Where all ranks are on one node, its communicator does what the caller asks for: calls f(that communicator) and says so.
template <class Algorithm, class Transport, class F>
bool on_only_node(communicator<Transport>& comm, options const& o, std::source_location where, F&& f) {
  if constexpr (has_levels<Transport> && !std::is_same_v<Algorithm, native> && !in_two_levels<Algorithm>)
    if (o.algorithm == algorithm_id::automatic || is_scheduled(o.algorithm))
      if (auto* const node = comm.engine().levels->only_node()) {
        if constexpr (bound_to_thread<Transport>) comm.engine().transport().expect_thread();
        comm.engine().expect_no_fault(where);
        f(*node);
        return true;
      }
  return false;
}

template <class Algorithm, collective C, class Transport, class Call, class Body>
void execute(engine<Transport>& g, Call& call, request const& r, Body body, surfaces<typename Body::element>& memory,
             std::size_t elements = 0) {
  if constexpr (has_native_collectives<Transport> && Call::blocks)
    if (call.plan().algorithm == algorithm_id::native) return execute_native<C>(g, call, r, body, memory, elements);
  if constexpr (has_levels<Transport> && Call::blocks)
    if (call.plan().algorithm == algorithm_id::two_level)
      return g.levels->template execute<Algorithm, C>(call, r, body, memory, elements);
  if constexpr (!std::is_same_v<Algorithm, native> && !in_two_levels<Algorithm>)
    execute_schedule<Algorithm, C>(g, call, r, body, memory, elements);
}

}  // namespace tutti::detail
