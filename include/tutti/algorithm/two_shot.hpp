// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Two shots: scatter the work in one hop and gather the results in another. Two hops and the fewest bytes.
#pragma once

#include <string_view>

#include "tutti/algorithm/compose.hpp"
#include "tutti/algorithm/one_shot.hpp"

namespace tutti {

struct two_shot {
  static constexpr std::string_view name = "two_shot";
};

namespace detail {

// The second shot: every rank sends its chunk of the result to all others.
struct share_all : one_chunk_messages {
  static constexpr bool at_once = true;  // it combines nothing

  TUTTI_HOST_DEVICE constexpr int chunks(shape s) const { return s.ranks; }
  TUTTI_HOST_DEVICE constexpr int steps(shape s, position) const { return s.ranks > 1 ? 1 : 0; }
  TUTTI_HOST_DEVICE constexpr step at(shape s, position me, int) const {
    int const r = me.rank;
    peers const rest = others(s, r);
    return {
        .from = rest, .keep = {space::output, {r + 1, s.ranks - 1}, true}, .to = rest, .give = {space::output, {r}}};
  }
};

}  // namespace detail

// Rank r combines chunk r of all ranks in rank order and shares it. Slices of the second shot follow those of the first.
template <>
struct schedule<two_shot, collective::all_reduce>
    : then<schedule<one_shot, collective::reduce_scatter>, detail::share_all> {};

// The first shot leaves a chunk in each rank's scratch memory, at the root in its output. The second sends it to the root.
template <>
struct schedule<two_shot, collective::reduce> : one_chunk_messages {
  static constexpr bool at_once = true;
  static constexpr bool scratch = true;

  TUTTI_HOST_DEVICE constexpr int phases(shape) const { return 2; }
  TUTTI_HOST_DEVICE constexpr int chunks(shape s) const { return s.ranks; }
  TUTTI_HOST_DEVICE constexpr int steps(shape s, position) const { return s.ranks > 1 ? 1 : 0; }
  TUTTI_HOST_DEVICE constexpr step at(shape s, position me, int i) const {
    int const r = me.rank;
    space const kept = r == s.root ? space::output : space::scratch;
    if (me.phase == 0) {
      step out = schedule<one_shot, collective::reduce_scatter>{}.at(s, me, i);
      out.keep.where = kept;
      return out;
    }
    if (r != s.root) return {.to = one(s.root), .give = {kept, {r}}};
    return {.from = others(s, r), .keep = {kept, {r + 1, s.ranks - 1}, true}};
  }
};

// The root sends each rank a chunk, and each rank passes its chunk on to all others except the root.
template <>
struct schedule<two_shot, collective::broadcast> : one_chunk_messages {
  TUTTI_HOST_DEVICE constexpr int phases(shape) const { return 2; }
  TUTTI_HOST_DEVICE constexpr int chunks(shape s) const { return s.ranks; }
  TUTTI_HOST_DEVICE constexpr int steps(shape s, position) const { return s.ranks > 1 ? 1 : 0; }
  TUTTI_HOST_DEVICE constexpr step at(shape s, position me, int) const {
    int const r = me.rank;
    peers const rest = others(s, s.root);
    if (me.phase == 0) {
      if (r == s.root) return {.to = rest, .give = {space::input, {r + 1, s.ranks - 1}, true}};
      return {.from = one(s.root), .keep = {space::output, {r}}};
    }
    if (r == s.root) return {.to = rest, .give = {space::input, {r}}};
    return {.from = others(s, r),
            .keep = {space::output, {r + 1, s.ranks - 1}, true},
            .to = rest,
            .give = {space::output, {r}}};
  }
};

}  // namespace tutti
