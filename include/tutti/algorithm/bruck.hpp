// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Bruck: gathers and exchanges blocks in ceil(log2 p) hops for any p, by sending many blocks in one message.
#pragma once

#include <string_view>

#include "tutti/algorithm/concept.hpp"

namespace tutti {

// J. Bruck, C.-T. Ho, S. Kipnis, E. Upfal, D. Weathersby, "Efficient algorithms for all-to-all communications in
// multiport message-passing systems", 1997.
struct bruck {
  static constexpr std::string_view name = "bruck";
};

// Before round k a rank has 2^k blocks, its own and those above it, and sends them to the rank 2^k below it.
template <>
struct schedule<bruck, collective::all_gather> : schedule_defaults {
  TUTTI_HOST_DEVICE constexpr int chunks(shape s) const { return s.ranks; }
  TUTTI_HOST_DEVICE constexpr int steps(shape s, position) const { return s.ranks > 1 ? 1 + log2_ceil(s.ranks) : 0; }
  TUTTI_HOST_DEVICE constexpr step at(shape s, position me, int i) const {
    int const r = me.rank;
    if (i == 0) return {.from = one(r), .own = {space::input, {r}}, .keep = {space::output, {r}}};
    int const distance = 1 << (i - 1), left = s.ranks - distance, count = distance < left ? distance : left;
    return {.from = one(r + distance),
            .keep = {space::output, {r + distance, count}},
            .to = one(r - distance),
            .give = {space::output, {r, count}}};
  }
};

// Slot j holds the block that still has to travel j ranks in total: it moves in the rounds of the set bits of j. The
// first step sorts the blocks by distance, the last one by source. This takes the fewest hops and log2(p) / 2 times the bytes,
// so it is for small blocks.
template <>
struct schedule<bruck, collective::all_to_all> : schedule_defaults {
  static constexpr bool scratch = true;
  static constexpr bool ragged = false;  // blocks pass through ranks that do not know their sizes
  static constexpr bool direct = false;  // a slot is overwritten by the block that takes its place
  static constexpr bool direct_in_place = false;

  TUTTI_HOST_DEVICE constexpr int chunks(shape s) const { return s.ranks; }
  TUTTI_HOST_DEVICE constexpr int steps(shape s, position) const { return s.ranks > 1 ? 2 + log2_ceil(s.ranks) : 0; }
  TUTTI_HOST_DEVICE constexpr step at(shape s, position me, int i) const {
    int const r = me.rank, p = s.ranks;
    if (i == 0) return {.from = one(r), .own = {space::input, {r, p}}, .keep = {space::scratch, {0, p}}};
    if (i > log2_ceil(p))
      return {.from = one(r), .own = {space::scratch, {0, p}}, .keep = {space::output, {r, p, 1, -1}}};
    int const bit = 1 << (i - 1), rest = p % (2 * bit);
    int const count = p / (2 * bit) * bit + (rest > bit ? rest - bit : 0);
    region const moving{space::scratch, {bit, count, bit, 2 * bit}};
    return {.from = one(r - bit), .keep = moving, .to = one(r + bit), .give = moving};
  }
};

}  // namespace tutti
