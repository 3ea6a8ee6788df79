// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The contract of each collective in ranks and chunks, derived from the table of collectives: which memory a rank has, and
// what it must contain at the end. In a call in place, a chunk that a rank has in its input and in its output is the same
// memory.
#pragma once

#include "tutti/algorithm/collective.hpp"
#include "tutti/core/shape.hpp"

namespace tutti::analyze {

using detail::has;
using detail::holding;

constexpr holding input_of(collective c, shape s, int rank) { return detail::row_of(c).input.at(rank == s.root); }
constexpr holding output_of(collective c, shape s, int rank) { return detail::row_of(c).output.at(rank == s.root); }

// The contributions of `count` ranks from `first` upwards to their chunk `chunk`. With a count of 0, nothing is promised.
struct promise {
  int first = 0;
  int count = 0;
  int chunk = 0;

  friend constexpr bool operator==(promise const&, promise const&) = default;
};

constexpr promise promise_of(collective c, shape s, int rank, int chunk) {
  using enum detail::contributions;
  switch (detail::row_of(c).result) {
    case every_rank: return {0, s.ranks, chunk};
    case up_to_self: return {0, rank + 1, chunk};
    case before_self: return {0, rank, chunk};
    case root: return {s.root, 1, chunk};
    case owner: return {chunk, 1, chunk};
    case transposed: return {chunk, 1, rank};
  }
  return {};
}

// Whether a contribution may be in the result more than once: a token may be passed on twice.
constexpr bool may_repeat(collective c) { return detail::row_of(c).message == detail::message_form::token; }

// Whether the contributions must be combined in rank order. Otherwise any order is allowed.
constexpr bool in_rank_order(collective c, shape s) { return !may_repeat(c) && (s.ordered || !reduces(c)); }

// Whether a result is ever complete, so that the last stage of an operation can be applied, such as the division of the
// mean. A prefix is complete only at its own rank, so scans have no such step.
constexpr bool completes(collective c) { return reduces(c) && !detail::is_prefix(c); }

// Whether blocks may change their number on the way. Elsewhere chunks may differ in size by one element, so what is sent as
// chunk c must be received as chunk c.
constexpr bool renumbers(collective c) { return detail::row_of(c).result == detail::contributions::transposed; }

}  // namespace tutti::analyze
