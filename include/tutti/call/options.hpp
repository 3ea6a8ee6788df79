// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The options of a call.
#pragma once

#include "tutti/core/time_limit.hpp"
#include "tutti/execute/plan.hpp"

namespace tutti {

// algorithm, protocol   the same on all ranks; an impossible choice throws bad_argument before any communication
// timeout               0: that of the communicator (5 minutes, or TUTTI_TIMEOUT in seconds). It counts from the first
//                       nap of the call, a few milliseconds after its start
//
//   tutti::all_reduce(comm, in, out, tutti::sum{}, {.algorithm = tutti::algorithm_id::ring, .timeout = 5s});
struct options {
  algorithm_id algorithm = algorithm_id::automatic;
  tutti::protocol protocol = tutti::protocol::automatic;
  time_limit timeout{};

  friend bool operator==(options const&, options const&) = default;
};

}  // namespace tutti
