// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The texts of the values of an enum.
#pragma once

#include <cstddef>
#include <string_view>

namespace tutti::detail {

// `all`: those of the values up to Last, in order, as pointers alone to save memory. A value from a file or another process may be
// beyond it: `unknown`.
template <auto Last, std::size_t N>
constexpr std::string_view text_of(decltype(Last) value, char const* const (&all)[N], std::string_view unknown) {
  static_assert(N == static_cast<std::size_t>(Last) + 1, "each value has a text");
  auto const place = static_cast<std::size_t>(value);
  return place < N ? all[place] : unknown;
}

}  // namespace tutti::detail
