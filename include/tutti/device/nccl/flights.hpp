// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Calls by NCCL that streams have been given, and how long they may take.
#pragma once

#include <chrono>
#include <list>
#include <optional>
#include <string>
#include <string_view>

#include "tutti/core/text.hpp"
#include "tutti/core/wait.hpp"
#include "tutti/device/model/device.hpp"

namespace tutti::detail {

template <marking_device D>
struct nccl_flight {
  nccl_flight(D const& on, std::string_view call, std::chrono::nanoseconds limit)
      : begun(on), ended(on), what{call}, timeout{limit} {}

  // That it takes too long; begins with the rank's call.
  std::string text_if_overdue(int rank) const {
    return join({what, " by NCCL on rank ", rank, " did not complete within ",
                 std::chrono::duration<double>(timeout).count(),
                 " s: the stream of another rank has not come to the call, or ended"});
  }

  device_event<D> begun, ended;  // the stream has come to the call, and has left it
  std::string_view what;
  std::chrono::nanoseconds timeout;
  std::optional<deadline> end{};  // from when it has begun
};
template <marking_device D>
using nccl_flights = std::list<nccl_flight<D>>;

// Forgets those that have ended. Returns one that takes too long; null if there is none.
template <marking_device D>
nccl_flight<D> const* find_overdue(nccl_flights<D>& flights) {
  flights.remove_if([](auto const& f) { return f.ended.reached(); });
  for (auto& f : flights) {
    if (!f.end && f.begun.reached()) f.end = deadline::after(f.timeout);
    if (f.end && f.end->passed()) return &f;
  }
  return nullptr;
}

}  // namespace tutti::detail
