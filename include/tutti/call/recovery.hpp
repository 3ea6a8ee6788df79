// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// How ranks continue after the loss of others: options and results of communicator::agree, shrink and activity.
#pragma once

#include <cstdint>
#include <vector>

#include "tutti/core/time_limit.hpp"

namespace tutti {

// The result of communicator::agree.
struct agreement {
  int flags;              // bitwise and of the flags of all ranks that voted
  std::vector<int> gone;  // ranks that have ended or closed their communicator, or were not waited for
};

// Options of communicator::shrink and agree.
struct shrink_options {
  // Ranks that are alive but have not joined after this time are excluded: the others continue without them. 0: they are
  // waited for, and shrink throws timeout after TUTTI_TIMEOUT. A negative time is refused. The first rank whose time is up decides for all.
  time_limit exclude_after{};
};

// What other ranks see of a rank without asking it; see communicator::activity.
struct rank_activity {
  std::uint64_t calls = 0;  // collectives that it has begun
  bool stopped = false;     // its process is stopped, by a signal or a debugger
};

}  // namespace tutti
