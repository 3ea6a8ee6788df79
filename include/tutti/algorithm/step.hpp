// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// One step of a schedule, in terms of ranks and chunks only: no bytes, types, pointers or transports.
#pragma once

#include <cstdint>

#include "tutti/core/shape.hpp"

namespace tutti {

// An arithmetic progression of ranks, modulo the number of ranks.
struct peers {
  int first = 0;
  int stride = 1;
  int count = 0;

  TUTTI_HOST_DEVICE constexpr int at(int k, int ranks) const { return wrap(first + k * stride, ranks); }
  TUTTI_HOST_DEVICE constexpr bool empty() const { return count == 0; }
};

// A single rank.
TUTTI_HOST_DEVICE constexpr peers one(int rank) { return {rank, 1, 1}; }
// Two ranks, in this order.
TUTTI_HOST_DEVICE constexpr peers two(int rank, int then) { return {rank, then - rank, 2}; }
// All ranks, in rank order.
TUTTI_HOST_DEVICE constexpr peers everyone(shape s) { return {0, 1, s.ranks}; }
// All ranks except one, starting after it.
TUTTI_HOST_DEVICE constexpr peers others(shape s, int rank) { return {rank + 1, 1, s.ranks - 1}; }

// `count` chunks, modulo the number of chunks, in runs: the k-th is first + (k / run) * stride + k % run. The
// defaults give a range; run = 1 with another stride a progression; runs of 2^k every 2^(k+1) the selection of Bruck.
struct chunks {
  int first = 0;
  int count = 1;
  int run = 1;
  int stride = 1;

  TUTTI_HOST_DEVICE constexpr int at(int k, int total) const {
    return wrap(first + (k / run) * stride + k % run, total);
  }
};

// The memory of a rank: the caller's input and output, and room for partial results. In a call in place, input and
// output are the same memory.
enum class space : std::uint8_t { none, input, output, scratch };

// Some chunks of a space. If `split`, the k-th peer has the k-th chunk; otherwise every peer has all of them.
struct region {
  space where = space::none;
  chunks what{};
  bool split = false;
};

// One fused step. The values that arrive from the ranks of `from` are combined **in that order**; if this rank is
// in `from`, it contributes `own`. The result is kept in `keep` and sent to the ranks of `to` in the same pass
// over memory: the middle step of a ring touches an element three times, not five.
//
//   from, own    one source: a copy. Several and not split: a reduction. keep.split: the k-th source is chunk k, stored alone.
//   keep         `what` says which chunks arrive even if they are only passed on (space::none)
//   to, give     space::none: forwards the result of this step. Otherwise sends chunks as they are before the step's result
//                is kept. A rank that is in its own `to` does not send to itself.
//   complete     the result holds every contribution that it should, so an epilogue, such as the mean's division, runs here
//
// A step sends and receives at the same time; the steps of one cursor follow each other.
struct step {
  peers from{};
  region own{};
  region keep{};
  peers to{};
  region give{};
  bool complete = false;

  TUTTI_HOST_DEVICE constexpr bool forwards() const { return !to.empty() && give.where == space::none; }
  TUTTI_HOST_DEVICE constexpr bool reduces() const { return from.count > 1 && !keep.split; }
};

}  // namespace tutti
