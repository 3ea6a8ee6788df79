// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Recursive halving with all-gather (Rabenseifner): logarithmic hops and the fewest bytes.
#pragma once

#include <string_view>

#include "tutti/algorithm/fold.hpp"

namespace tutti {

struct recursive_halving {
  static constexpr std::string_view name = "recursive_halving";
};

// Halving: partners at distance 1, 2, 4, ... split the part of the message that they share and each combines one half.
// Doubling retraces the exchanges and gathers the halves. Because the distance grows, a rank always holds the
// combination of a run of neighbours: rank order is kept. (Rabenseifner, 2004.)
template <>
struct schedule<recursive_halving, collective::all_reduce> : schedule_defaults {
  TUTTI_HOST_DEVICE constexpr int chunks(shape s) const { return power_below(s.ranks); }
  TUTTI_HOST_DEVICE constexpr int steps(shape s, position me) const {
    detail::folded_rank const fold(s, me.rank);
    if (s.ranks == 1) return 0;
    return fold.retired() ? 2 : 2 * fold.rounds() + (fold.stands_in() ? 2 : 0);
  }
  TUTTI_HOST_DEVICE constexpr step at(shape s, position me, int i) const {
    detail::folded_rank const fold(s, me.rank);
    int const rounds = fold.rounds(), turn = fold.stands_in() ? i - 1 : i;
    if (fold.retired() || turn < 0 || turn == 2 * rounds) return fold.seam(i == 0, {0, fold.power()});

    int const round = turn < rounds ? turn : 2 * rounds - 1 - turn;
    int const partner = fold.partner(1 << round);
    tutti::chunks const mine = held(fold, round + 1), theirs = sibling(fold, round + 1);
    if (turn >= rounds)
      return {.from = one(partner), .keep = {space::output, theirs}, .to = one(partner), .give = {space::output, mine}};
    space const before = i == 0 ? space::input : space::output;
    return {.from = fold.in_order(partner),
            .own = {before, mine},
            .keep = {space::output, mine},
            .to = one(partner),
            .give = {before, theirs},
            .complete = turn == rounds - 1};
  }

 private:
  // The chunks that a rank holds after `rounds` halvings: bit k of its number chooses the half in round k.
  TUTTI_HOST_DEVICE static constexpr tutti::chunks held(detail::folded_rank fold, int rounds) {
    int first = 0;
    for (int k = 0; k < rounds; ++k) first += ((fold.number() >> k) & 1) * (fold.power() >> (k + 1));
    return {first, fold.power() >> rounds};
  }
  TUTTI_HOST_DEVICE static constexpr tutti::chunks sibling(detail::folded_rank fold, int rounds) {
    tutti::chunks half = held(fold, rounds);
    half.first += (fold.number() >> (rounds - 1)) & 1 ? -half.count : half.count;
    return half;
  }
};

// Halving alone, so that block r ends at rank r: the distance shrinks, hence a rank combines contributions from far
// apart and the order of ranks is lost. A rank that stands in for a neighbour hands over its block at the end.
template <>
struct schedule<recursive_halving, collective::reduce_scatter> : schedule_defaults {
  static constexpr bool needs_commutative = true;
  static constexpr bool scratch = true;

  TUTTI_HOST_DEVICE constexpr int chunks(shape s) const { return s.ranks; }
  TUTTI_HOST_DEVICE constexpr int steps(shape s, position me) const {
    detail::folded_rank const fold(s, me.rank);
    if (s.ranks == 1) return 0;
    return fold.retired() ? 2 : fold.rounds() + (fold.stands_in() ? 3 : 0);
  }
  TUTTI_HOST_DEVICE constexpr step at(shape s, position me, int i) const {
    detail::folded_rank const fold(s, me.rank);
    int const r = me.rank, rounds = fold.rounds(), round = fold.stands_in() ? i - 1 : i;
    tutti::chunks const all{0, s.ranks}, mine{r};
    if (fold.retired()) {
      if (i == 0) return {.to = one(r + 1), .give = {space::input, all}};
      return {.from = one(r + 1), .keep = {space::output, mine}};
    }
    if (round < 0) return {.from = two(r - 1, r), .own = {space::input, all}, .keep = {space::scratch, all}};
    if (round == rounds) return {.to = one(r - 1), .give = {space::scratch, {r - 1}}};
    if (round > rounds) return {.from = one(r), .own = {space::scratch, mine}, .keep = {space::output, mine}};

    int const distance = fold.power() >> (round + 1), partner = fold.partner(distance);
    int const begin = fold.number() & -distance, other = begin ^ distance;
    space const before = i == 0 ? space::input : space::scratch;
    bool const last = round == rounds - 1;
    space const after = last && !fold.stands_in() ? space::output : space::scratch;
    tutti::chunks const kept = fold.blocks(begin, begin + distance);
    return {.from = fold.in_order(partner),
            .own = {before, kept},
            .keep = {after, kept},
            .to = one(partner),
            .give = {before, fold.blocks(other, other + distance)},
            .complete = last};
  }
};

}  // namespace tutti
