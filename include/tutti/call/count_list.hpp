// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// How the _v forms take their counts and offsets.
#pragma once

#include <concepts>
#include <cstddef>
#include <ranges>
#include <span>
#include <type_traits>

#include "tutti/algorithm/collective.hpp"
#include "tutti/call/refuse.hpp"

namespace tutti::detail {

// An array that is meant as counts, whether or not it can be: where an output may stand in its place.
template <class R>
concept counts_argument = std::ranges::range<R> && std::integral<std::ranges::range_value_t<R>>;

// The counts or the offsets of the _v form of C: one for each rank.
template <collective C>
struct count_list : std::span<std::size_t const> {
  using span::span;
  count_list() = default;
  count_list(std::span<std::size_t const> list) : span(list) {}
  template <class Other>
    requires(!std::is_constructible_v<std::span<std::size_t const>, Other const&>)
  count_list(Other const&) {
    if constexpr (std::is_arithmetic_v<Other>)
      static_assert(
          never<Other>,
          "counts or offsets of all ranks are expected here, but this is a number; a root follows the offsets: write "
          "{} for adjacent blocks");
    else if constexpr (C == collective::scatter)
      static_assert(never<Other>,
                    "counts and offsets are contiguous arrays of std::size_t, such as a std::vector<std::size_t>; "
                    "scatter_v takes the counts before the output");
    else if constexpr (C == collective::all_to_all)
      static_assert(never<Other>,
                    "counts and offsets are contiguous arrays of std::size_t, such as a std::vector<std::size_t>; "
                    "all_to_all_v takes the counts of the input before the output");
    else
      static_assert(never<Other>,
                    "counts and offsets are contiguous arrays of std::size_t, such as a std::vector<std::size_t>; "
                    "in this call they follow the output");
  }
};

}  // namespace tutti::detail
