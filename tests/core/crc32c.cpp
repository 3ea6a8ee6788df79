// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "tutti/core/crc32c.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

using namespace tutti::detail;

TEST_CASE("CRC-32C of the examples of RFC 3720, appendix B.4, and of the usual check") {
  std::vector<std::byte> ascending, descending;
  for (int i = 0; i < 32; ++i) {
    ascending.push_back(static_cast<std::byte>(i));
    descending.push_back(static_cast<std::byte>(31 - i));
  }
  CHECK(crc32c(std::vector<std::byte>(32)) == 0x8a9136aau);
  CHECK(crc32c(std::vector<std::byte>(32, std::byte{0xff})) == 0x62a8ab43u);
  CHECK(crc32c(ascending) == 0x46dd794eu);
  CHECK(crc32c(descending) == 0x113fdb5cu);
  CHECK(crc32c(std::as_bytes(std::span(std::string_view("123456789")))) == 0xe3069283u);
  CHECK(crc32c({}) == 0);
}

TEST_CASE("CRC-32C of a text in two parts is that of the whole") {
  std::vector<std::byte> all(67);
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<std::byte>(i * i + 3);
  for (std::size_t at = 0; at <= all.size(); ++at)
    CHECK(crc32c(std::span(all).subspan(at), crc32c(std::span(all).first(at))) == crc32c(all));
}
