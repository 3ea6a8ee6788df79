// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Dissemination: a barrier in ceil(log2 p) rounds for any p, without a root.
#pragma once

#include <string_view>

#include "tutti/algorithm/concept.hpp"

namespace tutti {

// D. Hensgen, R. Finkel, U. Manber, "Two algorithms for barrier synchronization", 1988.
struct dissemination {
  static constexpr std::string_view name = "dissemination";
};

// After round k a rank has heard from the 2^(k+1) ranks up to itself. Where p is not a power of two it hears from some
// twice, which does no harm in a barrier.
template <>
struct schedule<dissemination, collective::barrier> : one_chunk_messages {
  static constexpr bool direct = false;  // every rank would wait to overwrite what the next one reads
  static constexpr bool direct_in_place = false;

  TUTTI_HOST_DEVICE constexpr int steps(shape s, position) const { return log2_ceil(s.ranks); }
  TUTTI_HOST_DEVICE constexpr step at(shape, position me, int i) const {
    int const r = me.rank, distance = 1 << i;
    space const held = i == 0 ? space::input : space::output;
    return {
        .from = two(r - distance, r), .own = {held}, .keep = {space::output}, .to = one(r + distance), .give = {held}};
  }
};

}  // namespace tutti
