// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Recursive doubling: ranks exchange whole messages at distance 1, 2, 4, ... The fewest hops for an all-reduce.
#pragma once

#include <string_view>

#include "tutti/algorithm/fold.hpp"

namespace tutti {

struct recursive_doubling {
  static constexpr std::string_view name = "recursive_doubling";
};

// After k exchanges a rank holds the combination of a run of 2^k neighbours. Both partners combine lower with upper, so
// they hold the same bits, and runs stay in rank order. (Thakur, Rabenseifner and Gropp, 2005.)
template <>
struct schedule<recursive_doubling, collective::all_reduce> : one_chunk_messages {
  static constexpr bool direct = false;  // partners would wait for each other before overwriting what both still read
  static constexpr bool direct_in_place = false;

  TUTTI_HOST_DEVICE constexpr int steps(shape s, position me) const {
    detail::folded_rank const fold(s, me.rank);
    if (s.ranks == 1) return 0;
    return fold.retired() ? 2 : fold.rounds() + (fold.stands_in() ? 2 : 0);
  }
  TUTTI_HOST_DEVICE constexpr step at(shape s, position me, int i) const {
    detail::folded_rank const fold(s, me.rank);
    int const round = fold.stands_in() ? i - 1 : i;
    if (fold.retired() || round < 0 || round == fold.rounds()) return fold.seam(i == 0, {});
    int const partner = fold.partner(1 << round);
    space const held = i == 0 ? space::input : space::output;
    return {.from = fold.in_order(partner),
            .own = {held},
            .keep = {space::output},
            .to = one(partner),
            .give = {held},
            .complete = round == fold.rounds() - 1};
  }
};

template <>
struct schedule<recursive_doubling, collective::barrier> : schedule<recursive_doubling, collective::all_reduce> {};

// After k rounds rank r holds the combination of the 2^k ranks up to and including itself, or of all ranks from 0 where there
// are fewer. (Hillis and Steele, 1986.)
template <>
struct schedule<recursive_doubling, collective::scan> : one_chunk_messages {
  TUTTI_HOST_DEVICE constexpr int steps(shape s, position) const { return log2_ceil(s.ranks); }
  TUTTI_HOST_DEVICE constexpr step at(shape s, position me, int i) const {
    return doubling(s, me.rank, 1 << i, 0, i == 0 ? space::input : space::output, i == 0);
  }

  // The round at `distance` among the ranks from `lowest` up. Rank `lowest` receives nothing, and stores its own
  // contribution in the first round.
  TUTTI_HOST_DEVICE static constexpr step doubling(shape s, int r, int distance, int lowest, space held, bool first) {
    step out{};
    if (r < lowest) return out;
    if (r + distance < s.ranks) out.to = one(r + distance), out.give = {held};
    if (r - distance >= lowest) out.from = two(r - distance, r), out.own = {held}, out.keep = {space::output};
    else if (first && r == lowest) out.from = one(r), out.own = {held}, out.keep = {space::output};
    return out;
  }
};

// The contributions move one rank up, then ranks 1 to p-1 scan them.
template <>
struct schedule<recursive_doubling, collective::exclusive_scan> : one_chunk_messages {
  TUTTI_HOST_DEVICE constexpr int steps(shape s, position) const {
    return s.ranks > 1 ? 1 + log2_ceil(s.ranks - 1) : 0;
  }
  TUTTI_HOST_DEVICE constexpr step at(shape s, position me, int i) const {
    int const r = me.rank;
    if (i > 0)
      return schedule<recursive_doubling, collective::scan>::doubling(s, r, 1 << (i - 1), 1, space::output, false);
    step out{};
    if (r < s.ranks - 1) out.to = one(r + 1), out.give = {space::input};
    if (r > 0) out.from = one(r - 1), out.keep = {space::output};
    return out;
  }
};

}  // namespace tutti
