// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What the communication of a training run has cost.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <vector>

namespace tutti::training {

// Sums over all steps of one rank.
struct training_statistics {
  struct bucket {
    std::size_t bytes = 0;                 // of its gradients, in one step
    std::chrono::nanoseconds in_flight{};  // from its start to its end
    std::chrono::nanoseconds awaited{};    // what finish() waited for it, after those before it; and wait()
  };

  std::size_t steps = 0;              // calls of finish()
  std::size_t bytes = 0;              // of all gradients that were reduced
  std::size_t message_bytes = 0;      // what this rank contributed to the calls that did it; less if a hook compresses
  std::chrono::nanoseconds passes{};  // from the first ready() of a step to the end of finish()
  std::chrono::nanoseconds in_flight{};  // from the start of the first bucket of a step to the end of the last
  std::chrono::nanoseconds busy{};       // the part of it with a bucket in flight
  std::chrono::nanoseconds waited{};     // in finish() and wait(), with nothing left to compute
  std::chrono::nanoseconds driven{};     // in ready(), which starts buckets and drives those in flight
  std::vector<bucket> buckets{};         // starts anew when the buckets change

  // The share of the communication during which this rank could compute, from 0 to 1.
  double overlap() const {
    return in_flight.count() == 0 ? 0 : std::max(0.0, 1 - std::chrono::duration<double>(waited + driven) / in_flight);
  }
  // Bytes per second of the messages, while there were any.
  double bandwidth() const {
    return busy.count() == 0 ? 0 : static_cast<double>(message_bytes) / std::chrono::duration<double>(busy).count();
  }
  // The bucket that was awaited longest; 0 if there is none.
  std::size_t longest_awaited() const {
    auto const longest = std::ranges::max_element(buckets, {}, &bucket::awaited);
    return static_cast<std::size_t>(longest - buckets.begin()) % std::max<std::size_t>(1, buckets.size());
  }
};

}  // namespace tutti::training
