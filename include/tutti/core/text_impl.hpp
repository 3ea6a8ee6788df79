// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Definitions of core/text.hpp.
#pragma once

#include <algorithm>
#include <charconv>
#include <cstdio>

#include "tutti/core/text.hpp"

namespace tutti::detail {

TUTTI_INLINE text_part::text_part(long long n)
    : view_{number_, static_cast<std::size_t>(std::snprintf(number_, sizeof number_, "%lld", n))} {}
TUTTI_INLINE text_part::text_part(unsigned long long n)
    : view_{number_, static_cast<std::size_t>(std::snprintf(number_, sizeof number_, "%llu", n))} {}
TUTTI_INLINE text_part::text_part(double n)
    : view_{number_, std::to_chars(number_, number_ + sizeof number_, n, std::chars_format::general, 6).ptr} {}

TUTTI_INLINE std::string join(std::initializer_list<text_part> parts) {
  std::string out;
  append(out, parts);
  return out;
}
TUTTI_INLINE void append(std::string& to, std::initializer_list<text_part> parts) {
  for (text_part const& part : parts) to += part.view();
}

TUTTI_INLINE std::size_t read_number(std::string_view text, std::uint64_t most, std::uint64_t& out) noexcept {
  out = 0;
  std::size_t digits = 0;
  for (; digits < text.size(); ++digits) {
    unsigned const digit = static_cast<unsigned char>(text[digits] - '0');
    if (digit > 9) break;
    if (digit > most || out > (most - digit) / 10) return 0;
    out = 10 * out + digit;
  }
  return digits;
}

TUTTI_INLINE void write_terminated(std::span<char> to, std::string_view text) noexcept {
  auto const continues = [](char c) { return (static_cast<unsigned char>(c) & 0xC0) == 0x80; };  // a character
  std::size_t length = std::min(text.size(), to.size() - 1);
  while (length > 0 && length < text.size() && continues(text[length])) --length;
  text.copy(to.data(), length);
  to[length] = '\0';
}

}  // namespace tutti::detail
