// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Finds the exchange that carries the messages of a communicator.
#pragma once

#include <source_location>

#include "tutti/call/communicator.hpp"
#include "tutti/call/fault_around.hpp"
#include "tutti/message/exchange.hpp"
#include "tutti/transport/concept.hpp"

namespace tutti::detail {

// Calls f with the exchange of the communicator, or of its node if all ranks are on a single one.
template <class Transport, class F>
decltype(auto) with_exchange(communicator<Transport>& comm, std::source_location where, F&& f) {
  comm.expect_usable(where);
  if constexpr (has_levels<Transport>)
    if (auto* const node = comm.engine().levels->only_node()) {
      comm.engine().transport().expect_thread();
      if (comm.size() > 1) expect_no_fault_around(comm.engine(), node->engine(), where);
      return f(exchange<typename Transport::inside>::of(node->engine()));
    }
  return f(exchange<Transport>::of(comm.engine()));
}

}  // namespace tutti::detail
