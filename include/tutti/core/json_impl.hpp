// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Definitions of core/json.hpp.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdio>

#include "tutti/core/json.hpp"

namespace tutti::detail {

// The bytes of the UTF-8 character at the start of a text (RFC 3629); 0 if it starts with none.
TUTTI_INLINE std::size_t character_bytes(std::string_view text) noexcept {
  auto const byte = [&](std::size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u; };
  unsigned const first = byte(0), second = byte(1);
  std::size_t const bytes = first < 0x80   ? 1
                            : first < 0xC2 ? 0
                            : first < 0xE0 ? 2
                            : first < 0xF0 ? 3
                            : first < 0xF5 ? 4
                                           : 0;
  for (std::size_t i = 1; i < bytes; ++i)
    if ((byte(i) & 0xC0) != 0x80) return 0;
  bool const overlong = (first == 0xE0 && second < 0xA0) || (first == 0xF0 && second < 0x90);
  bool const surrogate = first == 0xED && second > 0x9F, too_large = first == 0xF4 && second > 0x8F;
  return overlong || surrogate || too_large ? 0 : bytes;
}

TUTTI_INLINE std::string json_string(std::string_view text) {
  std::string out = "\"";
  while (!text.empty()) {
    std::size_t const bytes = character_bytes(text);
    auto const c = static_cast<unsigned char>(text.front());
    if (bytes == 0 || c < 0x20) {
      char code[7];
      std::snprintf(code, sizeof code, "\\u%04x", bytes == 0 ? 0xFFFDu : c);
      out += code;
    } else {
      if (c == '"' || c == '\\') out += '\\';
      out += text.substr(0, bytes);
    }
    text.remove_prefix(std::max<std::size_t>(bytes, 1));
  }
  return out += '"';
}

TUTTI_INLINE void append_json(std::string& to, char const* name, std::string_view text) {
  to += name;
  to += json_string(text);
}

}  // namespace tutti::detail
