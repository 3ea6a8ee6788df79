// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Ring: every rank talks only to its two neighbours. The fewest bytes, and hops that grow with the number of ranks.
#pragma once

#include <string_view>

#include "tutti/algorithm/compose.hpp"
#include "tutti/algorithm/concept.hpp"

namespace tutti {

struct ring {
  static constexpr std::string_view name = "ring";
};

// Chunk c starts at rank c+1, gathers a contribution at each hop and is complete at rank c after p-1 hops. Each hop adds
// one rank, so a chunk is combined in the rotated order c+1, c+2, ..., c, and the operation must be commutative. At step i all
// ranks work on different chunks, so both directions of every link are busy. (Patarasuk and Yuan, 2009.)
//
// A slice goes all the way before the next one starts: if every rank first sent a whole chunk, all would wait for room in
// full channels and nobody would receive. With a slice at a time a channel holds two messages at most.
template <>
struct schedule<ring, collective::reduce_scatter> : schedule_defaults {
  static constexpr bool needs_commutative = true;
  static constexpr bool pipelined = true;

  TUTTI_HOST_DEVICE constexpr int chunks(shape s) const { return s.ranks; }
  TUTTI_HOST_DEVICE constexpr int steps(shape s, position) const { return s.ranks > 1 ? s.ranks : 0; }
  TUTTI_HOST_DEVICE constexpr step at(shape s, position me, int i) const {
    int const r = me.rank, last = s.ranks - 1;
    tutti::chunks const c{r - 1 - i};
    if (i == 0) return {.to = one(r + 1), .give = {space::input, c}};
    step out{.from = two(r - 1, r), .own = {space::input, c}, .keep = {space::none, c}, .complete = i == last};
    if (i == last) out.keep.where = space::output;
    else out.to = one(r + 1);
    return out;
  }
};

// Each rank's block travels once around the ring: p-1 hops, in which a rank touches memory 2p-1 times.
template <>
struct schedule<ring, collective::all_gather> : schedule_defaults {
  static constexpr bool pipelined = true;

  TUTTI_HOST_DEVICE constexpr int chunks(shape s) const { return s.ranks; }
  TUTTI_HOST_DEVICE constexpr int steps(shape s, position) const { return s.ranks > 1 ? s.ranks : 0; }
  TUTTI_HOST_DEVICE constexpr step at(shape s, position me, int i) const {
    int const r = me.rank;
    tutti::chunks const c{r - i};
    step out{.from = one(i == 0 ? r : r - 1), .own = {space::input, c}, .keep = {space::output, c}};
    if (i < s.ranks - 1) out.to = one(r + 1);
    return out;
  }
};

// Reduce-scatter, then all-gather, with the seam fused: the step that completes a chunk also passes it on. 2(p-1) hops
// of 1/p of the message each, the least number of bytes that any all-reduce can send.
template <>
struct schedule<ring, collective::all_reduce> : schedule_defaults {
  static constexpr bool needs_commutative = true;
  static constexpr bool pipelined = true;

  TUTTI_HOST_DEVICE constexpr int chunks(shape s) const { return s.ranks; }
  TUTTI_HOST_DEVICE constexpr int steps(shape s, position) const { return s.ranks > 1 ? 2 * s.ranks - 1 : 0; }
  TUTTI_HOST_DEVICE constexpr step at(shape s, position me, int i) const {
    int const p = s.ranks;
    if (i < p - 1) return schedule<ring, collective::reduce_scatter>{}.at(s, me, i);
    step out{.from = one(me.rank - 1), .keep = {space::output, {me.rank - 1 - i}}};
    if (i == p - 1) out = schedule<ring, collective::reduce_scatter>{}.at(s, me, i);
    if (i < 2 * p - 2) out.to = one(me.rank + 1);
    return out;
  }
};

// A chain that starts at the root. Slices stream through it, so a long message takes its own time and that of one slice a hop.
template <>
struct schedule<ring, collective::broadcast> : schedule_defaults {
  TUTTI_HOST_DEVICE constexpr int steps(shape s, position) const { return s.ranks > 1 ? 1 : 0; }
  TUTTI_HOST_DEVICE constexpr step at(shape s, position me, int) const {
    int const hops = wrap(me.rank - s.root, s.ranks);
    if (hops == 0) return {.to = one(me.rank + 1), .give = {space::input}};
    step out{.from = one(me.rank - 1), .keep = {space::output}};
    if (hops < s.ranks - 1) out.to = one(me.rank + 1);
    return out;
  }
};

namespace detail {

// A chain that ends at rank s.root and begins at the rank before it, so that with root 0 it combines in rank order.
struct chain_reduce : schedule_defaults {
  TUTTI_HOST_DEVICE constexpr int steps(shape s, position) const { return s.ranks > 1 ? 1 : 0; }
  TUTTI_HOST_DEVICE constexpr step at(shape s, position me, int) const {
    int const r = me.rank, hops = wrap(r - s.root, s.ranks);
    if (hops == s.ranks - 1) return {.to = one(r - 1), .give = {space::input}};
    if (hops == 0) return {.from = two(r, r + 1), .own = {space::input}, .keep = {space::output}, .complete = true};
    return {.from = two(r, r + 1), .own = {space::input}, .to = one(r - 1)};
  }
};

}  // namespace detail

template <>
struct schedule<ring, collective::reduce> : deliver<detail::chain_reduce> {};

// A chain from rank 0 upwards: each rank keeps the prefix that includes its own contribution and passes it on.
template <>
struct schedule<ring, collective::scan> : schedule_defaults {
  TUTTI_HOST_DEVICE constexpr int steps(shape s, position) const { return s.ranks > 1 ? 1 : 0; }
  TUTTI_HOST_DEVICE constexpr step at(shape s, position me, int) const {
    int const r = me.rank;
    step out{.from = r == 0 ? one(0) : two(r - 1, r), .own = {space::input}, .keep = {space::output}};
    if (r < s.ranks - 1) out.to = one(r + 1);
    return out;
  }
};

// The contributions move one rank up; the chain then runs over ranks 1 to p-1.
template <>
struct schedule<ring, collective::exclusive_scan> : schedule_defaults {
  TUTTI_HOST_DEVICE constexpr int steps(shape s, position) const { return s.ranks > 1 ? 2 : 0; }
  TUTTI_HOST_DEVICE constexpr step at(shape s, position me, int i) const {
    int const r = me.rank;
    bool const last = r == s.ranks - 1;
    step out{};
    if (i == 0) {
      if (r > 0) out.from = one(r - 1), out.keep = {space::output};
      if (!last) out.to = one(r + 1), out.give = {space::input};
    } else if (r == 1 && !last) {
      out.to = one(r + 1), out.give = {space::output};
    } else if (r > 1) {
      out.from = two(r - 1, r), out.own = out.keep = {space::output};
      if (!last) out.to = one(r + 1);
    }
    return out;
  }
};

}  // namespace tutti
