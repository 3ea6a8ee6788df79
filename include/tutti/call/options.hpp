// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What a caller may ask of one call.
#pragma once

#include <chrono>

#include "tutti/execute/plan.hpp"

namespace tutti {

// algorithm, protocol   the same on all ranks; what cannot be had throws bad_argument before anything is sent
// timeout               0: the communicator's (5 minutes, or TUTTI_TIMEOUT in seconds); counted from when the call has
//                       waited long enough to nap, a few milliseconds after it began
//
//   tutti::all_reduce(comm, in, out, tutti::sum{}, {.algorithm = tutti::algorithm_id::ring, .timeout = 5s});
struct options {
  algorithm_id algorithm = algorithm_id::automatic;
  tutti::protocol protocol = tutti::protocol::automatic;
  std::chrono::nanoseconds timeout{0};

  friend bool operator==(options const&, options const&) = default;
};

}  // namespace tutti
