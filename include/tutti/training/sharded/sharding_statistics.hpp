// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What sharded training has cost: communication, and memory.
#pragma once

#include <chrono>
#include <cstddef>

#include "tutti/training/statistics.hpp"

namespace tutti::training {

// Sums over all steps of one rank. What training_statistics counts is the reduction of gradients; gathers are those of
// parameters: of buckets after their update in stages 1 and 2, of units in stage 3.
struct sharding_statistics : training_statistics {
  std::size_t gathers = 0;
  std::size_t gathered_ahead = 0;            // that had ended when they were asked for
  std::size_t gathered_bytes = 0;            // of the parameters in them
  std::chrono::nanoseconds gather_waited{};  // for gathers, with nothing else to do
};

// Bytes that one rank holds.
struct memory_use {
  std::size_t parameters = 0;  // whole, or this rank's shard
  std::size_t masters = 0;     // this rank's part of the parameters in float, if these are half or bfloat16
  std::size_t gathered = 0;    // units of parameters that are gathered, or are on their way
  std::size_t gradients = 0;   // whole, or this rank's shard and the buckets that are being computed or reduced
  std::size_t state = 0;       // of the optimiser

  std::size_t total() const { return parameters + masters + gathered + gradients + state; }
};

// In use now; and at the peak, which is what has been allocated, because memory that is not in use is kept for the next
// bucket or unit. What a hook holds is not counted.
struct memory_report {
  memory_use now, peak;
};

}  // namespace tutti::training
