// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The parts of a collective in two levels, as collective/two_level.hpp does them where nodes are even: for the cost model.
#pragma once

#include <array>
#include <cstddef>

#include "tutti/algorithm/collective.hpp"
#include "tutti/tune/problem.hpp"

namespace tutti::detail {

// From this size on, ranks of a node reduce a part of an all_reduce each, where nodes are even.
inline constexpr std::size_t least_split_bytes = 32 * 1024;

// Where ranks of a node take part in their places across at once, all that they send has to go through one link: it is as
// one message.
struct level_part {
  bool across = false;
  collective what{};
  std::size_t bytes = 0;  // problem::bytes
};

// Those that there are come first.
struct level_parts {
  std::array<level_part, 3> all{};
  std::size_t count = 0;

  constexpr level_part const* begin() const { return all.data(); }
  constexpr level_part const* end() const { return all.data() + count; }
};

constexpr level_parts parts_of(problem const& p) {
  using enum collective;
  std::size_t const n = p.bytes, ranks = static_cast<std::size_t>(p.ranks);
  std::size_t const each = ranks / static_cast<std::size_t>(p.node_count);  // ranks of a node
  constexpr bool inside = false, across = true;
  switch (p.what) {
    case barrier: return {{{{inside, barrier, n}, {across, barrier, n}, {inside, barrier, n}}}, 3};
    case broadcast: return {{{{across, broadcast, n}, {inside, broadcast, n}}}, 2};
    case reduce: return {{{{inside, reduce, n}, {across, reduce, n}}}, 2};
    case all_reduce:
      if (p.even_nodes && n >= least_split_bytes)
        return {{{{inside, reduce_scatter, n / each}, {across, all_reduce, n}, {inside, all_gather, n / each}}}, 3};
      return {{{{inside, reduce, n}, {across, all_reduce, n}, {inside, broadcast, n}}}, 3};
    case reduce_scatter:
      return {{{{inside, reduce, n * ranks}, {across, reduce_scatter, n * each}, {inside, scatter, n}}}, 3};
    case all_gather:
      return {{{{inside, gather, n}, {across, all_gather, n * each}, {inside, broadcast, n * ranks}}}, 3};
    case gather: return {{{{inside, gather, n}, {across, gather, n * each}}}, 2};
    case scatter: return {{{{across, scatter, n * each}, {inside, scatter, n}}}, 2};
    default: return {};
  }
}

}  // namespace tutti::detail
