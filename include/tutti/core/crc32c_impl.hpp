// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Definitions of core/crc32c.hpp.
#pragma once

#include <array>

#include "tutti/core/crc32c.hpp"

namespace tutti::detail {

// Entry [k][b]: what byte b adds to the checksum if k bytes follow it.
struct crc32c_tables {
  static constexpr std::uint32_t polynomial = 0x82f63b78;  // 0x1edc6f41, lowest power first

  std::array<std::array<std::uint32_t, 256>, 8> of{};

  crc32c_tables() noexcept {
    for (std::uint32_t b = 0; b < 256; ++b) {
      std::uint32_t crc = b;
      for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? polynomial : 0);
      of[0][b] = crc;
    }
    for (std::size_t k = 1; k < of.size(); ++k)
      for (std::size_t b = 0; b < 256; ++b) of[k][b] = (of[k - 1][b] >> 8) ^ of[0][of[k - 1][b] & 0xff];
  }
};

TUTTI_INLINE std::uint32_t crc32c(std::span<std::byte const> bytes, std::uint32_t before) noexcept {
  static crc32c_tables const tables;
  auto const& of = tables.of;
  auto const at = [&](std::size_t i) { return std::to_integer<std::uint32_t>(bytes[i]); };
  std::uint32_t crc = ~before;
  for (; bytes.size() >= 8; bytes = bytes.subspan(8)) {
    crc ^= at(0) | at(1) << 8 | at(2) << 16 | at(3) << 24;
    crc = of[7][crc & 0xff] ^ of[6][crc >> 8 & 0xff] ^ of[5][crc >> 16 & 0xff] ^ of[4][crc >> 24] ^ of[3][at(4)] ^
          of[2][at(5)] ^ of[1][at(6)] ^ of[0][at(7)];
  }
  for (std::size_t i = 0; i < bytes.size(); ++i) crc = (crc >> 8) ^ of[0][(crc ^ at(i)) & 0xff];
  return ~crc;
}

}  // namespace tutti::detail
