// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The sizes of memory that calls keep and that grows with their messages.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>

namespace tutti::detail {

// How many bytes to allocate if a call needs `needed`, more than the `had` bytes of the newest memory. Older memory is never
// released, because graphs and pending calls may refer to it. So each size is at least twice the previous one: however slowly
// messages grow, all memory together is less than four times what the largest call needed. The first size exceeds what the call
// needs by an eighth at most, so a program whose first call is its largest pays no more than that.
constexpr std::size_t grown_size(std::size_t needed, std::size_t had) {
  std::size_t const step = std::max<std::size_t>(std::bit_floor(needed) / 8, 256);
  return std::max((needed + step - 1) / step * step, 2 * had);
}

}  // namespace tutti::detail
