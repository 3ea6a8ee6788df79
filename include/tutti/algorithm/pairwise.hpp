// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Pairwise exchange: in round i a rank sends to the rank i above and receives from the rank i below.
#pragma once

#include <string_view>

#include "tutti/algorithm/concept.hpp"

namespace tutti {

struct pairwise {
  static constexpr std::string_view name = "pairwise";
};

// Every block takes one hop, and every rank has one partner at a time in each direction. For large blocks.
template <>
struct schedule<pairwise, collective::all_to_all> : one_chunk_messages {
  static constexpr bool in_place = false;  // the block that arrives in round i would overwrite what leaves in round p-i
  static constexpr bool direct_in_place = false;

  TUTTI_HOST_DEVICE constexpr int chunks(shape s) const { return s.ranks; }
  TUTTI_HOST_DEVICE constexpr int steps(shape s, position) const { return s.ranks > 1 ? s.ranks : 0; }
  TUTTI_HOST_DEVICE constexpr step at(shape, position me, int i) const {
    int const r = me.rank;
    if (i == 0) return {.from = one(r), .own = {space::input, {r}}, .keep = {space::output, {r}}};
    return {.from = one(r - i), .keep = {space::output, {r - i}}, .to = one(r + i), .give = {space::input, {r + i}}};
  }
};

template <>
struct schedule<pairwise, collective::all_gather> : one_chunk_messages {
  TUTTI_HOST_DEVICE constexpr int chunks(shape s) const { return s.ranks; }
  TUTTI_HOST_DEVICE constexpr int steps(shape s, position) const { return s.ranks > 1 ? s.ranks : 0; }
  TUTTI_HOST_DEVICE constexpr step at(shape, position me, int i) const {
    int const r = me.rank;
    if (i == 0) return {.from = one(r), .own = {space::input, {r}}, .keep = {space::output, {r}}};
    return {.from = one(r - i), .keep = {space::output, {r - i}}, .to = one(r + i), .give = {space::input, {r}}};
  }
};

// Rank r combines its block in the order r, r-1, r-2, ..., so the operation must be commutative.
template <>
struct schedule<pairwise, collective::reduce_scatter> : one_chunk_messages {
  static constexpr bool needs_commutative = true;

  TUTTI_HOST_DEVICE constexpr int chunks(shape s) const { return s.ranks; }
  TUTTI_HOST_DEVICE constexpr int steps(shape s, position) const { return s.ranks - 1; }
  TUTTI_HOST_DEVICE constexpr step at(shape s, position me, int i) const {
    int const r = me.rank, distance = i + 1;
    tutti::chunks const mine{r};
    return {.from = two(r, r - distance),
            .own = {i == 0 ? space::input : space::output, mine},
            .keep = {space::output, mine},
            .to = one(r + distance),
            .give = {space::input, {r + distance}},
            .complete = distance == s.ranks - 1};
  }
};

}  // namespace tutti
