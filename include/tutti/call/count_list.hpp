// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// How the _v forms take their counts and offsets.
#pragma once

#include <cstddef>
#include <span>
#include <type_traits>

namespace tutti::detail {

template <class...>
inline constexpr bool never = false;

// The counts or the offsets of a _v form: one for each rank.
struct count_list : std::span<std::size_t const> {
  using span::span;
  count_list() = default;
  count_list(std::span<std::size_t const> list) : span(list) {}
  template <class Other>
    requires(!std::is_constructible_v<std::span<std::size_t const>, Other const&>)
  count_list(Other const&) {
    static_assert(never<Other>,
                  "counts and offsets are contiguous arrays of std::size_t, such as a std::vector<std::size_t>; "
                  "scatter_v and all_to_all_v take the counts of the input before the output");
  }
};

}  // namespace tutti::detail
