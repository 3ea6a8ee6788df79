// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The memory that a rank brings to a call, and the places of a step's regions in it.
#pragma once

#include <cstddef>

#include "tutti/algorithm/step.hpp"
#include "tutti/core/config.hpp"
#include "tutti/core/partition.hpp"
#include "tutti/execute/layout.hpp"

namespace tutti::detail {

// Calls f(pointer, offset, count) for the contiguous pieces of `range` of the message that these chunks make. The offset
// counts from the start of the range. `slice`: of a surface.
template <class T, class Layout, class F>
TUTTI_HOST_DEVICE void for_each_piece(T* data, Layout const& where, std::size_t slice, int lane, chunks const& what,
                                      extent range, F&& f) {
  if (slice != 0) return f(data + static_cast<std::size_t>(lane) * slice, std::size_t{0}, range.count);
  std::size_t passed = 0, offset = 0, begin = 0, piece = 0;
  for (int k = 0; k < what.count && passed < range.end(); ++k) {
    extent const chunk = where.at(lane, what.at(k, where.parts()));
    std::size_t const from = range.begin > passed ? range.begin - passed : 0;
    std::size_t const left = range.end() - passed, to = chunk.count < left ? chunk.count : left;
    passed += chunk.count;
    if (from >= to) continue;
    if (piece > 0 && begin + piece == chunk.begin + from) {
      piece += to - from;
      continue;
    }
    if (piece > 0) f(data + begin, offset, piece), offset += piece;
    begin = chunk.begin + from;
    piece = to - from;
  }
  if (piece > 0) f(data + begin, offset, piece);
}

// One space of a rank: memory and its layout.
template <class T, class Layout = layout>
struct surface {
  T* data = nullptr;
  Layout where{};
  std::size_t slice = 0;  // where not 0, each lane has room for only this many elements, which its slices share

  template <class F>
  TUTTI_HOST_DEVICE void for_each_piece(int lane, chunks const& what, extent range, F&& f) const {
    detail::for_each_piece(data, where, slice, lane, what, range, f);
  }
};

// All spaces of a rank.
template <class T, class Layout = layout>
struct surfaces {
  surface<T const, Layout> input;
  surface<T, Layout> output;
  surface<T, Layout> scratch;
  bool in_place = false;  // input and output are the same memory where this rank has both

  // A region that is only passed on has the layout of the scratch memory.
  TUTTI_HOST_DEVICE Layout const& layout_of(space where) const noexcept {
    if (where == space::input) return input.where;
    if (where == space::output) return output.where;
    return scratch.where;
  }

  // The chunks of peer k's message, and its elements.
  TUTTI_HOST_DEVICE chunks share(region const& r, int k) const noexcept {
    return r.split ? chunks{r.what.at(k, layout_of(r.where).parts())} : r.what;
  }
  TUTTI_HOST_DEVICE std::size_t count(int lane, region const& r, int k) const noexcept {
    return layout_of(r.where).count(lane, share(r, k));
  }
  // The length of the longest message.
  TUTTI_HOST_DEVICE std::size_t largest(int lane, region const& r) const noexcept {
    if (!r.split) return count(lane, r, 0);
    std::size_t most = 0;
    for (int k = 0; k < r.what.count; ++k)
      if (std::size_t const n = count(lane, r, k); n > most) most = n;
    return most;
  }

  TUTTI_HOST_DEVICE std::size_t largest_chunk(int lane) const noexcept {
    return largest(lane, {space::scratch, {0, scratch.where.parts()}, true});
  }

  // The pieces of these chunks of a region.
  template <class F>
  TUTTI_HOST_DEVICE void for_each_piece(int lane, region const& r, chunks const& what, extent range, F&& f) const {
    surface<T, Layout> const& own = r.where == space::output ? output : scratch;
    T const* const data = r.where == space::input ? input.data : own.data;
    detail::for_each_piece(data, layout_of(r.where), r.where == space::input ? 0 : own.slice, lane, what, range, f);
  }
  template <class F>
  TUTTI_HOST_DEVICE void for_each_writable_piece(int lane, region const& r, chunks const& what, extent range,
                                                 F&& f) const {
    (r.where == space::output ? output : scratch).for_each_piece(lane, what, range, f);
  }
};

}  // namespace tutti::detail
