// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// One shot: each rank sends what it has straight to every rank that needs it. One hop, and the most bytes.
#pragma once

#include <string_view>

#include "tutti/algorithm/concept.hpp"

namespace tutti {

struct one_shot {
  static constexpr std::string_view name = "one_shot";
};

// Every rank receives all contributions and combines them in rank order, so all get the same bits. One hop, with p-1 messages
// in and out of each rank.
template <>
struct schedule<one_shot, collective::all_reduce> : one_chunk_messages {
  static constexpr bool at_once = true;
  static constexpr bool direct_in_place = false;  // two ranks would wait for each other to read what they overwrite

  TUTTI_HOST_DEVICE constexpr int steps(shape s, position) const { return s.ranks > 1 ? 1 : 0; }
  TUTTI_HOST_DEVICE constexpr step at(shape s, position me, int) const {
    return {.from = everyone(s),
            .own = {space::input},
            .keep = {space::output},
            .to = others(s, me.rank),
            .give = {space::input},
            .complete = true};
  }
};

template <>
struct schedule<one_shot, collective::barrier> : schedule<one_shot, collective::all_reduce> {};

template <>
struct schedule<one_shot, collective::reduce> : one_chunk_messages {
  static constexpr bool at_once = true;

  TUTTI_HOST_DEVICE constexpr int steps(shape s, position) const { return s.ranks > 1 ? 1 : 0; }
  TUTTI_HOST_DEVICE constexpr step at(shape s, position me, int) const {
    if (me.rank != s.root) return {.to = one(s.root), .give = {space::input}};
    return {.from = everyone(s), .own = {space::input}, .keep = {space::output}, .complete = true};
  }
};

template <>
struct schedule<one_shot, collective::broadcast> : one_chunk_messages {
  TUTTI_HOST_DEVICE constexpr int steps(shape s, position) const { return s.ranks > 1 ? 1 : 0; }
  TUTTI_HOST_DEVICE constexpr step at(shape s, position me, int) const {
    if (me.rank == s.root) return {.to = others(s, me.rank), .give = {space::input}};
    return {.from = one(s.root), .keep = {space::output}};
  }
};

// Chunk q goes to rank q, which combines the p contributions in rank order: the first half of a two-shot all-reduce.
template <>
struct schedule<one_shot, collective::reduce_scatter> : one_chunk_messages {
  static constexpr bool at_once = true;

  TUTTI_HOST_DEVICE constexpr int chunks(shape s) const { return s.ranks; }
  TUTTI_HOST_DEVICE constexpr int steps(shape s, position) const { return s.ranks > 1 ? 1 : 0; }
  TUTTI_HOST_DEVICE constexpr step at(shape s, position me, int) const {
    tutti::chunks const mine{me.rank}, theirs{me.rank + 1, s.ranks - 1};
    return {.from = everyone(s),
            .own = {space::input, mine},
            .keep = {space::output, mine},
            .to = others(s, me.rank),
            .give = {space::input, theirs, true},
            .complete = true};
  }
};

template <>
struct schedule<one_shot, collective::all_gather> : one_chunk_messages {
  TUTTI_HOST_DEVICE constexpr int chunks(shape s) const { return s.ranks; }
  TUTTI_HOST_DEVICE constexpr int steps(shape s, position) const { return s.ranks > 1 ? 1 : 0; }
  TUTTI_HOST_DEVICE constexpr step at(shape s, position me, int) const {
    tutti::chunks const mine{me.rank}, all{me.rank, s.ranks};
    return {.from = {me.rank, 1, s.ranks},
            .own = {space::input, mine},
            .keep = {space::output, all, true},
            .to = others(s, me.rank),
            .give = {space::input, mine}};
  }
};

template <>
struct schedule<one_shot, collective::gather> : one_chunk_messages {
  TUTTI_HOST_DEVICE constexpr int chunks(shape s) const { return s.ranks; }
  TUTTI_HOST_DEVICE constexpr int steps(shape s, position) const { return s.ranks > 1 ? 1 : 0; }
  TUTTI_HOST_DEVICE constexpr step at(shape s, position me, int) const {
    tutti::chunks const mine{me.rank}, all{me.rank, s.ranks};
    if (me.rank != s.root) return {.to = one(s.root), .give = {space::input, mine}};
    return {.from = {me.rank, 1, s.ranks}, .own = {space::input, mine}, .keep = {space::output, all, true}};
  }
};

template <>
struct schedule<one_shot, collective::scatter> : one_chunk_messages {
  TUTTI_HOST_DEVICE constexpr int chunks(shape s) const { return s.ranks; }
  TUTTI_HOST_DEVICE constexpr int steps(shape s, position) const { return s.ranks > 1 ? 1 : 0; }
  TUTTI_HOST_DEVICE constexpr step at(shape s, position me, int) const {
    tutti::chunks const mine{me.rank}, theirs{me.rank + 1, s.ranks - 1};
    if (me.rank != s.root) return {.from = one(s.root), .keep = {space::output, mine}};
    return {.from = one(me.rank),
            .own = {space::input, mine},
            .keep = {space::output, mine},
            .to = others(s, me.rank),
            .give = {space::input, theirs, true}};
  }
};

template <>
struct schedule<one_shot, collective::all_to_all> : one_chunk_messages {
  static constexpr bool direct_in_place = false;

  TUTTI_HOST_DEVICE constexpr int chunks(shape s) const { return s.ranks; }
  TUTTI_HOST_DEVICE constexpr int steps(shape s, position) const { return s.ranks > 1 ? 1 : 0; }
  TUTTI_HOST_DEVICE constexpr step at(shape s, position me, int) const {
    tutti::chunks const mine{me.rank}, theirs{me.rank + 1, s.ranks - 1}, all{me.rank, s.ranks};
    return {.from = {me.rank, 1, s.ranks},
            .own = {space::input, mine},
            .keep = {space::output, all, true},
            .to = others(s, me.rank),
            .give = {space::input, theirs, true}};
  }
};

// Each rank sends its contribution to all ranks above it and combines those below it in rank order.
template <>
struct schedule<one_shot, collective::scan> : one_chunk_messages {
  static constexpr bool at_once = true;

  TUTTI_HOST_DEVICE constexpr int steps(shape s, position) const { return s.ranks > 1 ? 1 : 0; }
  TUTTI_HOST_DEVICE constexpr step at(shape s, position me, int) const {
    int const r = me.rank;
    return {.from = {0, 1, r + 1},
            .own = {space::input},
            .keep = {space::output},
            .to = {r + 1, 1, s.ranks - 1 - r},
            .give = {space::input}};
  }
};

template <>
struct schedule<one_shot, collective::exclusive_scan> : one_chunk_messages {
  static constexpr bool at_once = true;

  TUTTI_HOST_DEVICE constexpr int steps(shape s, position) const { return s.ranks > 1 ? 1 : 0; }
  TUTTI_HOST_DEVICE constexpr step at(shape s, position me, int) const {
    int const r = me.rank;
    return {.from = {0, 1, r}, .keep = {space::output}, .to = {r + 1, 1, s.ranks - 1 - r}, .give = {space::input}};
  }
};

}  // namespace tutti
