// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The votes of elastic training.
#pragma once

#include <chrono>
#include <cstdint>
#include <source_location>

#include "tutti/call/communicator.hpp"
#include "tutti/call/survive.hpp"
#include "tutti/core/error.hpp"

namespace tutti::detail {

// Ranks may find out about a loss in different steps, or not at all, so whatever changes the group, or ends the run, begins with
// a vote, of which all have the same result.
enum class outcome { agreed, refused, lost };

// `agrees`: to what this rank was about to do. `intact`: whether it knows of no loss. Ranks that do not come within
// `exclude_after` are taken for lost, unless it is 0.
template <class Transport>
outcome vote(communicator<Transport>& comm, bool agrees, bool intact, std::chrono::nanoseconds exclude_after,
             std::source_location where) {
  int const mine = (agrees ? 1 : 0) | (intact ? 2 : 0);
  agreement all{mine, {}};
  if (exclude_after.count() == 0) {
    all = comm.agree(mine, where);
  } else if (comm.size() > 1) {
    resolution const seen =
        hold_vote(comm.engine(), motion::agree, static_cast<std::uint32_t>(mine), exclude_after, where);
    all = {static_cast<int>(seen.flags), seen.gone};
  }
  if ((all.flags & 2) == 0 || !all.gone.empty()) return outcome::lost;
  return (all.flags & 1) != 0 ? outcome::agreed : outcome::refused;
}
template <class Transport>
bool can_vote(communicator<Transport>& comm) {
  if constexpr (has_levels<Transport>)
    if (comm.engine().levels->only_node() != nullptr) return true;
  if constexpr (may_survive<Transport>) return comm.engine().transport().survives();
  return holds_votes<Transport>;
}

}  // namespace tutti::detail
