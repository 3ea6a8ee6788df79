// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The only place that divides counts: into lanes and chunks of nearly equal size, and into slices.
#pragma once

#include <cstddef>

#include "tutti/core/config.hpp"

namespace tutti {

// A run of elements.
struct extent {
  std::size_t begin = 0;
  std::size_t count = 0;

  TUTTI_HOST_DEVICE constexpr std::size_t end() const { return begin + count; }
  friend constexpr bool operator==(extent const&, extent const&) = default;
};

// Part `index` of `count` elements in `parts`. Whole grains are distributed so that parts differ by at most one grain
// and the larger ones come first; the rest of the last grain goes to the last part that is not empty. A grain of a
// cache line keeps two ranks from writing the same line.
TUTTI_HOST_DEVICE constexpr extent part(std::size_t count, int parts, int index, std::size_t grain = 1) {
  if (parts == 1) return {0, count};
  std::size_t const n = static_cast<std::size_t>(parts), i = static_cast<std::size_t>(index);
  std::size_t const grains = (count + grain - 1) / grain;
  std::size_t const each = grains / n, extra = grains % n;
  std::size_t const first = each * i + (i < extra ? i : extra);
  std::size_t const begin = first * grain, end = (first + each + (i < extra ? 1 : 0)) * grain;
  return {begin < count ? begin : count, (end < count ? end : count) - (begin < count ? begin : count)};
}

namespace detail {

// The number of slices of at most `slice` elements in `count` elements.
TUTTI_HOST_DEVICE constexpr std::size_t slices(std::size_t count, std::size_t slice) {
  return (count + slice - 1) / slice;
}

// Slice `index` of `count` elements; empty past the end, on sender and receiver alike.
TUTTI_HOST_DEVICE constexpr extent slice_of(std::size_t count, std::size_t slice, std::size_t index) {
  std::size_t const begin = index * slice;
  if (begin >= count) return {count, 0};
  return {begin, count - begin < slice ? count - begin : slice};
}

}  // namespace detail

}  // namespace tutti
