// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Schedules composed of schedules.
#pragma once

#include "tutti/algorithm/concept.hpp"

namespace tutti {

// `First` and then `Second`, as phases of one schedule. Each has its own cursor, so a slice enters the second phase while
// later slices are still in the first. Both have the same lanes and chunks.
template <class First, class Second>
struct then : schedule_defaults {
  static constexpr bool needs_commutative = First::needs_commutative || Second::needs_commutative;
  static constexpr bool at_once = detail::combines_in_one_step<First> && detail::combines_in_one_step<Second>;
  static constexpr bool pipelined = First::pipelined && Second::pipelined;
  static constexpr bool in_place = First::in_place && Second::in_place;
  static constexpr bool direct = First::direct && Second::direct;
  static constexpr bool direct_in_place = First::direct_in_place && Second::direct_in_place;
  static constexpr bool fetchable = First::fetchable && Second::fetchable;
  static constexpr bool scratch = First::scratch || Second::scratch;
  static constexpr bool ragged = First::ragged && Second::ragged;

  TUTTI_HOST_DEVICE constexpr int lanes(shape s) const { return First{}.lanes(s); }
  TUTTI_HOST_DEVICE constexpr int phases(shape s) const { return First{}.phases(s) + Second{}.phases(s); }
  TUTTI_HOST_DEVICE constexpr int chunks(shape s) const { return First{}.chunks(s); }
  TUTTI_HOST_DEVICE constexpr int steps(shape s, position me) const {
    int const first = First{}.phases(s);
    return me.phase < first ? First{}.steps(s, me) : Second{}.steps(s, {me.rank, me.lane, me.phase - first});
  }
  TUTTI_HOST_DEVICE constexpr step at(shape s, position me, int i) const {
    int const first = First{}.phases(s);
    return me.phase < first ? First{}.at(s, me, i) : Second{}.at(s, {me.rank, me.lane, me.phase - first}, i);
  }
};

// Makes a reduction to any root from one that keeps rank order only towards rank 0. Where the order matters and the root is
// another rank, rank 0 keeps the result in its scratch memory and sends it to the root in a further phase.
template <class Reduce>
struct deliver : Reduce {
  static constexpr bool scratch = true;

  TUTTI_HOST_DEVICE constexpr int phases(shape s) const { return Reduce::phases(s) + (detour(s) ? 1 : 0); }
  TUTTI_HOST_DEVICE constexpr int steps(shape s, position me) const {
    if (!detour(s)) return Reduce::steps(s, me);
    if (me.phase < Reduce::phases(s)) return Reduce::steps(at_zero(s), me);
    return me.rank == 0 || me.rank == s.root ? 1 : 0;
  }
  TUTTI_HOST_DEVICE constexpr step at(shape s, position me, int i) const {
    if (!detour(s)) return Reduce::at(s, me, i);
    if (me.phase == Reduce::phases(s)) {
      if (me.rank == 0) return {.to = one(s.root), .give = {space::scratch}};
      return {.from = one(0), .keep = {space::output}};
    }
    step out = Reduce::at(at_zero(s), me, i);
    if (out.own.where == space::output) out.own.where = space::scratch;
    if (out.keep.where == space::output) out.keep.where = space::scratch;
    return out;
  }

 private:
  TUTTI_HOST_DEVICE static constexpr bool detour(shape s) { return s.ordered && s.root != 0 && s.ranks > 1; }
  TUTTI_HOST_DEVICE static constexpr shape at_zero(shape s) { return {s.ranks, 0, s.ordered}; }
};

}  // namespace tutti
