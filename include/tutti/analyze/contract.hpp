// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What each collective promises, in ranks and chunks: the memory that a rank has and what must be in it at the end.
#pragma once

#include <cstdint>

#include "tutti/algorithm/collective.hpp"
#include "tutti/core/shape.hpp"

namespace tutti::analyze {

// The chunks of a buffer that a rank has: none, the one that bears its number, or all.
enum class holding : std::uint8_t { none, own, all };

constexpr bool has(holding h, int rank, int chunk) { return h == holding::all || (h == holding::own && chunk == rank); }

// What a rank gives and gets. The message of every rank is cut into chunks; for the collectives by block, chunk q is the
// block of rank q. Section numbers are those of the MPI standard 4.1, chapter 6.
//
//                      input            output           chunk c of the output of rank r is
//   all_reduce         all              all              chunk c of ranks 0..p-1 combined                  (6.9.6)
//   reduce             all              root: all        the same                                          (6.9.1)
//   broadcast          root: all        others: all      chunk c of the root                               (6.4)
//   reduce_scatter     all              own              chunk r of ranks 0..p-1 combined                  (6.10)
//   all_gather         own              all              the block of rank c                               (6.7)
//   gather             own              root: all        the block of rank c                               (6.5)
//   scatter            root: all        own              block r of the root                               (6.6)
//   all_to_all         all              all              block r of rank c                                 (6.8)
//   barrier            all              all              a token from every rank, once or more             (6.3)
//   scan               all              all              chunk c of ranks 0..r combined                    (6.11.1)
//   exclusive_scan     all              all              chunk c of ranks 0..r-1; at rank 0 anything       (6.11.2)
//
// In a call that is in place, a chunk that a rank has in its input and in its output is the same memory.
constexpr holding input_of(collective c, shape s, int rank) {
  if (c == collective::all_gather || c == collective::gather) return holding::own;
  if (c == collective::broadcast || c == collective::scatter) return rank == s.root ? holding::all : holding::none;
  return holding::all;
}

constexpr holding output_of(collective c, shape s, int rank) {
  if (c == collective::reduce_scatter || c == collective::scatter) return holding::own;
  if (c == collective::reduce || c == collective::gather) return rank == s.root ? holding::all : holding::none;
  if (c == collective::broadcast) return rank == s.root ? holding::none : holding::all;
  return holding::all;
}

// The contributions of `count` ranks from `first` upwards to their chunk `chunk`. A count of 0: nothing is promised.
struct promise {
  int first = 0;
  int count = 0;
  int chunk = 0;
};

constexpr promise promise_of(collective c, shape s, int rank, int chunk) {
  switch (c) {
    case collective::all_reduce:
    case collective::reduce:
    case collective::reduce_scatter:
    case collective::barrier: return {0, s.ranks, chunk};
    case collective::broadcast:
    case collective::scatter: return {s.root, 1, chunk};
    case collective::all_gather:
    case collective::gather: return {chunk, 1, chunk};
    case collective::all_to_all: return {chunk, 1, rank};
    case collective::scan: return {0, rank + 1, chunk};
    case collective::exclusive_scan: return {0, rank, chunk};
  }
  return {};
}

// Whether the contributions must stand in rank order; otherwise any order will do.
constexpr bool in_rank_order(collective c, shape s) { return c != collective::barrier && (s.ordered || !reduces(c)); }

// Whether a contribution may be in the result more than once.
constexpr bool may_repeat(collective c) { return c == collective::barrier; }

// Whether there is a moment at which a result is complete, for an operation's last touch such as the mean's division. (A
// prefix of a scan is whole at its own rank alone, so scans have none; a barrier has nothing to touch.)
constexpr bool completes(collective c) {
  return c == collective::all_reduce || c == collective::reduce || c == collective::reduce_scatter;
}

// Whether blocks may change their number on the way. Elsewhere chunks may differ in size by an element, so what is sent
// as chunk c must be received as chunk c.
constexpr bool renumbers(collective c) { return c == collective::all_to_all; }

}  // namespace tutti::analyze
