// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Finds the size of buckets with which a backward pass and its communication take the least time.
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
  int steps = 1;  // with a size before it is another one's turn; their median counts

  friend bool operator==(adaptive_buckets const&, adaptive_buckets const&) = default;
};

}  // namespace training

namespace detail {

// Compares the first size with sizes from the least to the most, each four times the one before. All take turns, forwards in one
// round and backwards in the next, so that a slow period or a drift of the machine meets all of them. Only costs of the same round
// are compared.
//
//   - After ten rounds, the better half of those that were cheaper than the first size stays, until one does (successive halving).
//   - That one then competes with the first size alone, in rounds of their own: it was selected for its luck, too. It replaces
//     the first size if it is cheaper by 2 % in 22 of 32 rounds, which two equal sizes reach by chance once in 40 times at most. So
//     noise hides small gains, but seldom leads to a wrong choice.
//   - If the chosen size later costs half as much again, the search begins anew from there.
//
// Ranks that pass equal agreed costs make equal choices.
class bucket_search {
 public:
  // Begins with `bytes`, or with the end of the range that is next to it. `all`: the bytes of all gradients, which are in
  // one bucket at most.
  bucket_search(training::adaptive_buckets const& range, std::size_t bytes, std::size_t all);

  // The size to use in the next step, and all that it may become.
  std::size_t bytes() const noexcept { return trials_[turn()].bytes; }
  std::vector<std::size_t> const& sizes() const noexcept { return sizes_; }
  bool settled() const noexcept { return trials_.size() == 1; }

  // What a step has cost this rank. Returns whether enough steps were seen: then all ranks agree on one cost, such as the largest
  // median(), and pass it to judge().
  bool saw(std::chrono::nanoseconds cost);
  std::chrono::nanoseconds median() const;
  void judge(std::chrono::nanoseconds agreed);

 private:
  struct trial {
    std::size_t bytes = 0;
    std::vector<std::chrono::nanoseconds> costs{};  // of each round
  };

  void begin();
  std::size_t turn() const noexcept;
  bool is_cheaper(trial const& other, std::size_t round) const;
  double relative_cost(trial const& other) const;
  void narrow();
  void settle(std::size_t chosen);

  std::size_t steps_;
  std::vector<std::size_t> sizes_;  // the first one, then the others
  std::vector<trial> trials_{};     // those that still compete; the first one is that of the first size
  std::size_t turns_ = 0;           // of these
  std::vector<std::chrono::nanoseconds> seen_{};
  std::chrono::nanoseconds settled_cost_{};  // 0: not known
};

}  // namespace detail
}  // namespace tutti

#if !defined(TUTTI_COMPILED)
#include "tutti/training/bucket_search_impl.hpp"
#endif
