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

// `count` elements in `parts`. Whole grains are distributed so that parts differ by at most one grain and the larger ones
// come first; the rest of the last grain goes to the last part that is not empty. A grain of a cache line keeps two ranks
// from writing the same line. It divides once, so that a kernel can find parts without a division.
struct even_parts {
  std::size_t count = 0, grain = 1;
  std::size_t each = 0, extra = 0;  // grains of every part, and how many parts have one more

  even_parts() = default;
  TUTTI_HOST_DEVICE constexpr even_parts(std::size_t count_, int parts, std::size_t grain_ = 1)
      : count{count_}, grain{grain_} {
    std::size_t const n = static_cast<std::size_t>(parts), grains = (count + grain - 1) / grain;
    each = grains / n;
    extra = grains % n;
  }
  TUTTI_HOST_DEVICE constexpr extent at(int index) const {
    std::size_t const i = static_cast<std::size_t>(index), first = each * i + (i < extra ? i : extra);
    std::size_t const begin = first * grain, end = (first + each + (i < extra ? 1 : 0)) * grain;
    return {begin < count ? begin : count, (end < count ? end : count) - (begin < count ? begin : count)};
  }
};

// Part `index` of them.
TUTTI_HOST_DEVICE constexpr extent part(std::size_t count, int parts, int index, std::size_t grain = 1) {
  if (parts == 1) return {0, count};
  return even_parts(count, parts, grain).at(index);
}

namespace detail {

// The number of slices of at most `slice` elements in `count` elements.
TUTTI_HOST_DEVICE constexpr std::size_t slices(std::size_t count, std::size_t slice) {
  return (count + slice - 1) / slice;
}

// `run` slices of `count` elements from slice `index` on; empty past the end, on sender and receiver alike.
TUTTI_HOST_DEVICE constexpr extent slice_of(std::size_t count, std::size_t slice, std::size_t index,
                                            std::size_t run = 1) {
  std::size_t const begin = index * slice;
  if (begin >= count) return {count, 0};
  return {begin, count - begin < run * slice ? count - begin : run * slice};
}

}  // namespace detail

}  // namespace tutti
