// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Finds the size of buckets with which a step waits least for its communication.
#pragma once

#include <chrono>
#include <cstddef>
#include <vector>

namespace tutti {
namespace training {

// Sizes of buckets that data_parallel may try. Large buckets use the bandwidth better; small ones start earlier.
struct adaptive_buckets {
  std::size_t least_bytes = std::size_t{1} << 20;
  std::size_t most_bytes = std::size_t{100} << 20;
  int steps = 5;  // with each size, of which the median counts; one more after each change does not count

  friend bool operator==(adaptive_buckets const&, adaptive_buckets const&) = default;
};

}  // namespace training

namespace detail {

// Tries the first size, and then sizes from the least to the most, each four times the one before. The first one stays unless the
// best of the others is cheaper by a tenth at least, and once more when both are tried again: measured times are noisy, and a
// wrong choice costs more than a missed one. If steps with the chosen size later cost half as much again, it searches anew. Ranks
// that pass equal agreed costs make equal choices.
class bucket_search {
 public:
  // Begins with `bytes`, or with the end of the range that is next to it. `all`: the bytes of all gradients, which are in
  // one bucket at most.
  bucket_search(training::adaptive_buckets const& range, std::size_t bytes, std::size_t all);

  // The size to use in the next step.
  std::size_t bytes() const noexcept { return sizes_[now_]; }
  bool settled() const noexcept { return settled_; }

  // What communication has cost this rank in a step. Returns whether enough steps were seen: then all ranks agree on
  // one cost, such as the largest median(), and pass it to judge().
  bool saw(std::chrono::nanoseconds cost);
  std::chrono::nanoseconds median() const;
  void judge(std::chrono::nanoseconds agreed);

 private:
  void use(std::size_t index);

  std::size_t steps_;
  std::vector<std::size_t> sizes_;  // the first one, then the others
  std::size_t now_ = 0;             // an index of these
  std::vector<std::chrono::nanoseconds>
      costs_{};  // of each size; then of the first one and the best of the others again
  std::vector<std::chrono::nanoseconds> seen_{};
  std::chrono::nanoseconds settled_cost_{};
  bool skip_ = true;  // the first step with new buckets: their memory is new, too
  bool settled_ = false;
};

}  // namespace detail
}  // namespace tutti

#if !defined(TUTTI_COMPILED)
#include "tutti/training/bucket_search_impl.hpp"
#endif
