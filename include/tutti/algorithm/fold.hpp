// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Folds any number of ranks to a power of two: some ranks retire, and a neighbour stands in for each.
#pragma once

#include "tutti/algorithm/concept.hpp"

namespace tutti::detail {

// With ranks = power + extra, the even ones of the first 2 * extra ranks hand their contribution to the odd rank above
// and retire until the end; the others are renumbered 0..power-1. Neighbours are folded, so a renumbered rank still
// stands for a run of consecutive ranks and rank order is kept.
class folded_rank {
 public:
  TUTTI_HOST_DEVICE constexpr folded_rank(shape s, int rank)
      : rank_(rank), power_(power_below(s.ranks)), extra_(s.ranks - power_) {}

  TUTTI_HOST_DEVICE constexpr int power() const { return power_; }
  TUTTI_HOST_DEVICE constexpr int rounds() const { return log2_ceil(power_); }
  TUTTI_HOST_DEVICE constexpr bool retired() const { return rank_ < 2 * extra_ && rank_ % 2 == 0; }
  TUTTI_HOST_DEVICE constexpr bool stands_in() const { return rank_ < 2 * extra_ && rank_ % 2 == 1; }

  // The new number of this rank, and the rank that has a new number.
  TUTTI_HOST_DEVICE constexpr int number() const { return rank_ < 2 * extra_ ? rank_ / 2 : rank_ - extra_; }
  TUTTI_HOST_DEVICE constexpr int rank_of(int number) const {
    return number < extra_ ? 2 * number + 1 : number + extra_;
  }
  TUTTI_HOST_DEVICE constexpr int partner(int distance) const { return rank_of(number() ^ distance); }

  // The ranks that the new numbers [begin, end) stand for, as blocks.
  TUTTI_HOST_DEVICE constexpr chunks blocks(int begin, int end) const {
    int const first = first_rank(begin);
    return {first, first_rank(end) - first};
  }

  // This rank and its partner as sources, the lower rank first.
  TUTTI_HOST_DEVICE constexpr peers in_order(int partner) const {
    return partner < rank_ ? two(partner, rank_) : two(rank_, partner);
  }

  // The step that folds (the contribution goes up, into the output of the rank that stands in) or unfolds (the result comes
  // back), for the chunks of the whole message.
  TUTTI_HOST_DEVICE constexpr step seam(bool folding, chunks what) const {
    if (retired()) {
      if (folding) return {.to = one(rank_ + 1), .give = {space::input, what}};
      return {.from = one(rank_ + 1), .keep = {space::output, what}};
    }
    if (!folding) return {.to = one(rank_ - 1), .give = {space::output, what}};
    return {.from = two(rank_ - 1, rank_), .own = {space::input, what}, .keep = {space::output, what}};
  }

 private:
  TUTTI_HOST_DEVICE constexpr int first_rank(int number) const {
    return number < extra_ ? 2 * number : number + extra_;
  }

  int rank_, power_, extra_;
};

}  // namespace tutti::detail
