// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A hash that is the same on all ranks, unlike std::hash: FNV-1a of 64 bits.
#pragma once

#include <cstdint>

namespace tutti::detail {

// Of a range of numbers, each of which counts as a whole. Characters count as unsigned ones do.
template <class Range>
constexpr std::uint64_t hash_of(Range const& all) {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (auto const one : all) {
    if constexpr (sizeof one == 1) hash ^= static_cast<unsigned char>(one);
    else hash ^= static_cast<std::uint64_t>(one);
    hash *= 0x100000001b3;
  }
  return hash;
}

}  // namespace tutti::detail
