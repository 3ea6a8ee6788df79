// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Definitions of core/json.hpp.
#pragma once

#include <cstdio>

#include "tutti/core/json.hpp"

namespace tutti::detail {

TUTTI_INLINE std::string json_string(std::string_view text) {
  std::string out = "\"";
  for (char const c : text) {
    if (c == '"' || c == '\\') (out += '\\') += c;
    else if (static_cast<unsigned char>(c) >= 0x20) out += c;
    else {
      char code[7];
      std::snprintf(code, sizeof code, "\\u%04x", static_cast<unsigned>(c));
      out += code;
    }
  }
  return out += '"';
}

}  // namespace tutti::detail
