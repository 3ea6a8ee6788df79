// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What the parts of a collective in two levels send and work, for the cost model.
#pragma once

#include <cstddef>

#include "tutti/algorithm/parts.hpp"
#include "tutti/tune/problem.hpp"

namespace tutti::detail {

// The ranks of the largest node, which the others wait for.
constexpr int ranks_of_largest(problem const& p) {
  return p.largest_node > 0 ? p.largest_node : p.ranks / p.node_count;
}

// problem::bytes of a part, on the largest node or from it. If all ranks of a node take part across nodes at once, their data pass
// through one link, so their sum counts as one message.
constexpr std::size_t bytes_of(level_part const& part, problem const& whole) {
  std::size_t const ranks = static_cast<std::size_t>(whole.ranks), nodes = static_cast<std::size_t>(whole.node_count);
  std::size_t const here = static_cast<std::size_t>(ranks_of_largest(whole));
  std::size_t const message = by_block(whole.what) ? whole.bytes * ranks : whole.bytes;
  if (!by_block(part.what)) return message;
  if (part.detour) return message / here;  // of which one rank has all
  if (whole.what == collective::all_to_all) {
    // Of this message for each rank, a node sends a part to each node: of uneven ones, most from the largest to one of the others.
    if (part.across)
      return whole.largest_node > 0 ? whole.bytes * here * ((ranks - here) / (nodes - 1)) : message * here / nodes;
    return part.what == collective::all_to_all ? message / here : message;
  }
  if (part.across) return message * here / ranks;
  return message / (by_block(whole.what) ? ranks : here);
}

// The bytes that a rank copies or combines besides in a part.
constexpr std::size_t worked_bytes(level_part const& part, problem const& whole) {
  std::size_t const ranks = static_cast<std::size_t>(whole.ranks),
                    here = static_cast<std::size_t>(ranks_of_largest(whole));
  if (part.work != part_work::arranges) return whole.bytes;
  bool const own = part.by_all || (part.what == collective::all_to_all && !part.across);  // not those of the node
  return whole.bytes * ranks * (own ? 1 : here);
}

}  // namespace tutti::detail
