// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The size of a cache line.
#pragma once

#include <cstddef>

namespace tutti::detail {

inline constexpr std::size_t cache_line = 64;

}  // namespace tutti::detail
