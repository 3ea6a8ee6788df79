// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The blocks of ranks in a buffer, and the host collectives that move them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <source_location>
#include <span>
#include <vector>

#include "tutti/collective/all_gather.hpp"
#include "tutti/collective/all_to_all.hpp"
#include "tutti/collective/broadcast.hpp"
#include "tutti/collective/gather.hpp"
#include "tutti/collective/scatter.hpp"
#include "tutti/core/partition.hpp"
#include "tutti/execute/layout.hpp"

namespace tutti::detail {

// One block for each rank, or a single one.
using block_list = std::vector<extent>;

inline block_list blocks_of(layout const& where, int ranks) {
  block_list out;
  for (int q = 0; q < ranks; ++q) out.push_back(where.at(0, q));
  return out;
}
inline std::size_t longest_of(block_list const& blocks) {
  std::size_t out = 0;
  for (extent const& b : blocks) out = std::max(out, b.count);
  return out;
}
// The part of each block that belongs to a slice.
inline block_list slices_of(block_list const& blocks, std::size_t most, std::size_t slice) {
  block_list out;
  for (extent const& b : blocks) {
    extent const part = slice_of(b.count, most, slice);
    out.push_back({b.begin + part.begin, part.count});
  }
  return out;
}
// Blocks of the same lengths, where block q begins at q * stride, in units of `unit`.
inline block_list packed(block_list const& blocks, std::size_t stride, std::size_t unit) {
  block_list out;
  for (extent const& b : blocks) out.push_back({out.size() * stride * unit, b.count * unit});
  return out;
}

// Counts and offsets for the host's _v forms.
struct block_numbers {
  explicit block_numbers(block_list const& blocks) {
    for (extent const& b : blocks) {
      counts.push_back(b.count);
      offsets.push_back(b.begin);
      end = std::max(end, b.end());
    }
  }
  std::vector<std::size_t> counts, offsets;
  std::size_t end = 0;
};

// Calls the host's collective on blocks of n elements.
template <collective C, class Algorithm, class Comm, class T>
returned_by<Comm> move_blocks_on_host(Comm&& comm, T const* in, T* out, std::size_t n, int root, options const& o,
                                      std::source_location where) {
  std::size_t const all = n * static_cast<std::size_t>(comm.size()), at_root = comm.rank() == root ? all : 0;
  if constexpr (C == collective::all_gather)
    return all_gather<Algorithm>(comm, std::span(in, n), std::span(out, all), o, where);
  else if constexpr (C == collective::all_to_all)
    return all_to_all<Algorithm>(comm, std::span(in, all), std::span(out, all), o, where);
  else if constexpr (C == collective::gather)
    return gather<Algorithm>(comm, std::span(in, n), std::span(out, at_root), root, o, where);
  else if constexpr (C == collective::scatter)
    return scatter<Algorithm>(comm, std::span(in, at_root), std::span(out, n), root, o, where);
  else return broadcast<Algorithm>(comm, std::span(out, n), root, o, where);
}

// Calls its _v form. If a rank sends or receives a single block, the array starts with it.
template <collective C, class Algorithm, class Comm, class T>
returned_by<Comm> move_ragged_on_host(Comm&& comm, T const* in, block_list const& given, T* out, block_list const& got,
                                      int root, options const& o, std::source_location where) {
  block_numbers const from(given), to(got);
  std::span const all_in(in, from.end);
  std::span const all_out(out, to.end);
  if constexpr (C == collective::all_gather)
    return all_gather_v<Algorithm>(comm, all_in, all_out, to.counts, to.offsets, o, where);
  else if constexpr (C == collective::gather)
    return gather_v<Algorithm>(comm, all_in, all_out, to.counts, to.offsets, root, o, where);
  else if constexpr (C == collective::scatter)
    return scatter_v<Algorithm>(comm, all_in, from.counts, all_out, from.offsets, root, o, where);
  else
    return all_to_all_v<Algorithm>(comm, all_in, from.counts, all_out, to.counts, from.offsets, to.offsets, o, where);
}

}  // namespace tutti::detail
