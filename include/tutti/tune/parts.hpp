// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A collective in two levels as a list of collectives, within nodes and across them. collective/two_level.hpp executes
// the list, and the cost model prices it.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>

#include "tutti/algorithm/registry.hpp"
#include "tutti/tune/problem.hpp"

namespace tutti::detail {

// From this size on, every rank of a node reduces a share of an all_reduce, if nodes are even.
inline constexpr std::size_t min_split_bytes = 32 * 1024;

// The memory that parts read and write. `whole` is the whole message, or the blocks of all ranks; `block` is the blocks
// of a node's ranks at the representative of the node, or the share of a rank in a split all_reduce.
enum class part_memory : unsigned char { none, input, output, whole, block };

// One collective: within each node, or across nodes among their representatives.
struct level_part {
  bool across = false;
  collective what{};
  part_memory from{}, to{};
  bool by_all = false;  // across nodes, each rank with those of the same local rank
  bool detour = false;  // only on the root's node, if nodes are uneven and the root is not its representative
};

struct level_parts {
  std::array<level_part, 3> all{};
  std::size_t count = 0;

  constexpr level_part const* begin() const { return all.data(); }
  constexpr level_part const* end() const { return all.data() + count; }
};

// Empty for collectives that have no form in two levels. `split`: an all_reduce in shares.
constexpr level_parts parts_of(collective what, bool split) {
  using enum collective;
  using enum part_memory;
  constexpr bool inside = false, across = true;
  switch (what) {
    case barrier: return {{{{inside, barrier}, {across, barrier}, {inside, barrier}}}, 3};
    case broadcast:
      return {{{{inside, broadcast, whole, whole, false, true},
                {across, broadcast, whole, whole},
                {inside, broadcast, whole, whole}}},
              3};
    case reduce:
      return {{{{inside, reduce, input, whole},
                {across, reduce, whole, whole},
                {inside, scatter, whole, output, false, true}}},
              3};
    case all_reduce:
      if (split)
        return {{{{inside, reduce_scatter, input, block},
                  {across, all_reduce, block, block, true},
                  {inside, all_gather, block, whole}}},
                3};
      return {{{{inside, reduce, input, whole}, {across, all_reduce, whole, whole}, {inside, broadcast, whole, whole}}},
              3};
    case reduce_scatter:
      return {
          {{{inside, reduce, input, whole}, {across, reduce_scatter, whole, block}, {inside, scatter, block, output}}},
          3};
    case all_gather:
      return {{{{inside, gather, input, block}, {across, all_gather, block, whole}, {inside, broadcast, whole, whole}}},
              3};
    case gather:
      return {{{{inside, gather, input, block},
                {across, gather, block, whole},
                {inside, scatter, whole, output, false, true}}},
              3};
    case scatter:
      return {{{{inside, gather, input, whole, false, true},
                {across, scatter, whole, block},
                {inside, scatter, block, output}}},
              3};
    default: return {};
  }
}

static_assert(std::all_of(every_collective.begin(), every_collective.end(),
                          [](collective c) { return has_two_levels(c) == (parts_of(c, false).count > 0); }),
              "a collective is served by two levels exactly if its parts are listed");

// problem::bytes of a part. If all ranks of a node take part across nodes at once, their data pass through one link, so
// their sum counts as one message.
constexpr std::size_t bytes_of(level_part const& part, problem const& whole) {
  std::size_t const ranks = static_cast<std::size_t>(whole.ranks), nodes = static_cast<std::size_t>(whole.node_count);
  std::size_t const message = by_block(whole.what) ? whole.bytes * ranks : whole.bytes;
  if (!by_block(part.what)) return message;
  return message / (part.across ? nodes : by_block(whole.what) ? ranks : ranks / nodes);
}

}  // namespace tutti::detail
