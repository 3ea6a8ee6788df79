// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A byte of one of several memories, in a word.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tutti::detail {

// Its word is not 0, which can mean that there is none.
struct numbered_place {
  static constexpr int offset_bits = 40;  // 1 TiB

  std::size_t number, offset;

  static constexpr numbered_place of(std::uint64_t word) {
    return {(word >> offset_bits) - 1, word & ((std::uint64_t{1} << offset_bits) - 1)};
  }
  constexpr std::uint64_t word() const { return (static_cast<std::uint64_t>(number) + 1) << offset_bits | offset; }
};

}  // namespace tutti::detail
