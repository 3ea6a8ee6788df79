// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A collective in two levels as a list of collectives, within nodes and across them. collective/two_level.hpp executes
// the list, analyze/verify_two_level.hpp proves it, and the cost model prices it.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>

#include "tutti/algorithm/collective.hpp"

namespace tutti::detail {

// From this size on, every rank of a node reduces a share of an all_reduce, if nodes are even.
inline constexpr std::size_t min_split_bytes = 32 * 1024;

// The memory that parts read and write. `whole` is the whole message, or the blocks of all ranks; `block` is the blocks
// of a node's ranks at the representative of the node, or the share of a rank in a split all_reduce.
//
// In a scan, `total` is what the ranks of the node make together, at its last rank, `block` the same at the representative,
// and `whole` what all earlier nodes make. In an all_to_all, `whole` is the blocks in the order in which a part sends them,
// and `block` those that it has received.
enum class part_memory : unsigned char { none, input, output, whole, block, total };

// What ranks do besides on their own memory.
enum class part_work : unsigned char {
  none,
  arranges,  // before: those that send copy the blocks of an all_to_all into the order of the recipients
  totals,    // after: the last rank of a node adds its contribution to those of the ranks before it
  folds,     // after: every rank combines what earlier nodes make with its result
};

// One collective: within each node, or across nodes among their representatives.
struct level_part {
  bool across = false;
  collective what{};
  part_memory from{}, to{};
  bool by_all = false;  // across nodes, each rank with those of the same local rank
  bool detour = false;  // only if nodes are uneven, where a root, or the last rank in a scan, is not the representative
  part_work work = part_work::none;
};

struct level_parts {
  std::array<level_part, 4> all{};
  std::size_t count = 0;

  constexpr level_part const* begin() const { return all.data(); }
  constexpr level_part const* end() const { return all.data() + count; }
};

// Whether every rank sends a part of the message across nodes, to the ranks with the same local rank. It shares an
// all_reduce that is worth dividing. In an all_to_all, it takes the blocks for those ranks; representatives would send
// fewer messages, but hold the blocks of a whole node.
constexpr bool all_cross(collective what, bool even_nodes, std::size_t bytes) {
  return even_nodes && (what == collective::all_to_all || (what == collective::all_reduce && bytes >= min_split_bytes));
}

// `split`: every rank takes part across nodes; see all_cross. (For all_to_all: J. L. Träff, S. Hunold, "Decomposing
// collectives for exploiting multi-lane communication", 2020.)
constexpr level_parts parts_of(collective what, bool split) {
  using enum collective;
  using enum part_memory;
  switch (what) {
    case barrier: return {{{{.what = barrier}, {.across = true, .what = barrier}, {.what = barrier}}}, 3};
    case broadcast:
      return {{{{.what = broadcast, .from = whole, .to = whole, .detour = true},
                {.across = true, .what = broadcast, .from = whole, .to = whole},
                {.what = broadcast, .from = whole, .to = whole}}},
              3};
    case reduce:
      return {{{{.what = reduce, .from = input, .to = whole},
                {.across = true, .what = reduce, .from = whole, .to = whole},
                {.what = scatter, .from = whole, .to = output, .detour = true}}},
              3};
    case all_reduce:
      if (split)
        return {{{{.what = reduce_scatter, .from = input, .to = block},
                  {.across = true, .what = all_reduce, .from = block, .to = block, .by_all = true},
                  {.what = all_gather, .from = block, .to = whole}}},
                3};
      return {{{{.what = reduce, .from = input, .to = whole},
                {.across = true, .what = all_reduce, .from = whole, .to = whole},
                {.what = broadcast, .from = whole, .to = whole}}},
              3};
    case reduce_scatter:
      return {{{{.what = reduce, .from = input, .to = whole},
                {.across = true, .what = reduce_scatter, .from = whole, .to = block},
                {.what = scatter, .from = block, .to = output}}},
              3};
    case all_gather:
      return {{{{.what = gather, .from = input, .to = block},
                {.across = true, .what = all_gather, .from = block, .to = whole},
                {.what = broadcast, .from = whole, .to = whole}}},
              3};
    case gather:
      return {{{{.what = gather, .from = input, .to = block},
                {.across = true, .what = gather, .from = block, .to = whole},
                {.what = scatter, .from = whole, .to = output, .detour = true}}},
              3};
    case scatter:
      return {{{{.what = gather, .from = input, .to = whole, .detour = true},
                {.across = true, .what = scatter, .from = whole, .to = block},
                {.what = scatter, .from = block, .to = output}}},
              3};
    case all_to_all:
      if (split)
        return {{{{.what = all_to_all, .from = whole, .to = block, .work = part_work::arranges},
                  {.across = true,
                   .what = all_to_all,
                   .from = whole,
                   .to = output,
                   .by_all = true,
                   .work = part_work::arranges}}},
                2};
      return {{{{.what = gather, .from = input, .to = block},
                {.across = true, .what = all_to_all, .from = whole, .to = block, .work = part_work::arranges},
                {.what = scatter, .from = whole, .to = output, .work = part_work::arranges}}},
              3};
    case scan:
      return {{{{.what = scan, .from = input, .to = output},
                {.what = gather, .from = total, .to = block, .detour = true},
                {.across = true, .what = exclusive_scan, .from = block, .to = whole},
                {.what = broadcast, .from = whole, .to = whole, .work = part_work::folds}}},
              4};
    case exclusive_scan:
      return {{{{.what = exclusive_scan, .from = input, .to = output, .work = part_work::totals},
                {.what = gather, .from = total, .to = block, .detour = true},
                {.across = true, .what = exclusive_scan, .from = block, .to = whole},
                {.what = broadcast, .from = whole, .to = whole, .work = part_work::folds}}},
              4};
  }
  return {};
}

static_assert(std::all_of(every_collective.begin(), every_collective.end(),
                          [](collective c) { return parts_of(c, false).count > 0; }),
              "list the parts of every collective in two levels");

}  // namespace tutti::detail
