// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Definitions of core/environment.hpp.
#pragma once

#include <cstdlib>

#include "tutti/core/environment.hpp"
#include "tutti/core/error.hpp"
#include "tutti/core/text.hpp"

namespace tutti::detail {

TUTTI_INLINE std::string_view environment_variable(char const* name) {
  char const* const text = std::getenv(name);
  return text == nullptr ? "" : text;
}

TUTTI_INLINE bool environment_flag(char const* name, bool otherwise, char const* way_out) {
  std::string_view const text = environment_variable(name);
  if (text.empty()) return otherwise;
  if (text != "0" && text != "1") refuse_variable(name, text, "0 or 1", way_out);
  return text == "1";
}

TUTTI_INLINE void refuse_variable(char const* name, std::string_view text, char const* what, char const* way_out) {
  throw error({.code = error_code::bad_argument,
               .what = join({name, "=\"", text, "\" is not ", what}),
               .way_out = join({"set it to ", way_out})});
}

}  // namespace tutti::detail
