// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Definitions of fault/settings.hpp.
#pragma once

#include <algorithm>
#include <array>
#include <cstdlib>

#include "tutti/core/error.hpp"
#include "tutti/core/text.hpp"
#include "tutti/fault/settings.hpp"

namespace tutti::detail {

TUTTI_INLINE settings settings::from_environment() {
  settings out;
  if (char const* const text = std::getenv("TUTTI_TIMEOUT")) {
    char* end = nullptr;
    double const seconds = std::strtod(text, &end);
    if (end == text || *end != '\0' || !(seconds > 0 && seconds < 1e9))
      refuse("TUTTI_TIMEOUT", text, "a time", "a number of seconds above 0, e.g. 300");
    out.timeout = std::chrono::nanoseconds(static_cast<long long>(seconds * 1e9));
  }
  if (char const* const text = std::getenv("TUTTI_ALGORITHM")) out.algorithms = overrides(text);
  if (std::string_view const text = variable("TUTTI_LOG"); !text.empty()) {
    static constexpr std::array<std::string_view, 4> levels{"none", "error", "info", "debug"};
    auto const level = std::find(levels.begin(), levels.end(), text);
    if (level == levels.end()) refuse("TUTTI_LOG", text, "a level", "none, error, info or debug");
    out.log = static_cast<log_level>(level - levels.begin());
  }
  if (std::string_view const text = variable("TUTTI_RECORD_SIGNAL"); !text.empty()) {
    out.record_signal = std::atoi(text.data());
    if (out.record_signal < 1 || out.record_signal > 64)
      refuse("TUTTI_RECORD_SIGNAL", text, "a signal", "its number, e.g. 10 for SIGUSR1 on Linux");
  }
  if (std::string_view const text = variable("TUTTI_CHECK"); !text.empty()) {
    if (text != "buffers") refuse("TUTTI_CHECK", text, "a check", "buffers, or unset it");
    out.checks_buffers = true;
  }
  out.record = variable("TUTTI_RECORD");
  out.trace = variable("TUTTI_TRACE");
  out.statistics = variable("TUTTI_STATISTICS") == "1";
  return out;
}

TUTTI_INLINE std::string_view settings::variable(char const* name) {
  char const* const text = std::getenv(name);
  return text == nullptr ? "" : text;
}

TUTTI_INLINE void settings::refuse(char const* name, std::string_view text, char const* what, char const* way_out) {
  throw error({.code = error_code::bad_argument,
               .what = join({name, "=\"", text, "\" is not ", what}),
               .way_out = join({"set it to ", way_out})});
}

}  // namespace tutti::detail
