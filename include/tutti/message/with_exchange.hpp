// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Finds the exchange that carries the messages of a communicator.
#pragma once

#include <source_location>

#include "tutti/call/perform.hpp"
#include "tutti/message/exchange.hpp"

namespace tutti::detail {

// Calls f with the exchange of the communicator, or of its node if all ranks are on a single one.
template <class Transport, class F>
decltype(auto) with_exchange(communicator<Transport>& comm, std::source_location where, F&& f) {
  comm.expect_usable(where);
  if constexpr (has_levels<Transport>)
    if (auto* const node = node_for<automatic>(comm, algorithm_id::automatic, where))
      return f(exchange<typename Transport::inside>::of(node->engine()));
  return f(exchange<Transport>::of(comm.engine()));
}

}  // namespace tutti::detail
