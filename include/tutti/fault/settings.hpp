// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What the environment says. Read once a communicator.
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "tutti/core/error.hpp"
#include "tutti/core/text.hpp"
#include "tutti/tune/overrides.hpp"

namespace tutti::detail {

// What is written to the standard error output; each level has those before it.
enum class log_level : std::uint8_t { none, error, info, debug };

struct settings {
  std::chrono::nanoseconds timeout = std::chrono::minutes(5);  // TUTTI_TIMEOUT
  overrides algorithms{};                                      // TUTTI_ALGORITHM
  log_level log = log_level::none;                             // TUTTI_LOG
  std::string record{};         // TUTTI_RECORD: where flight records go, less ".<rank>.json"
  int record_signal = 0;        // TUTTI_RECORD_SIGNAL
  std::string trace{};          // TUTTI_TRACE: the same for traces
  bool statistics = false;      // TUTTI_STATISTICS=1
  bool checks_buffers = false;  // TUTTI_CHECK=buffers

  bool observes() const { return log == log_level::debug || !trace.empty() || statistics; }

  [[gnu::cold]] static settings from_environment() {
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
      auto const level = std::ranges::find(levels, text);
      if (level == levels.end()) refuse("TUTTI_LOG", text, "a level", "none, error, info or debug");
      out.log = static_cast<log_level>(level - levels.begin());
    }
    if (std::string_view const text = variable("TUTTI_RECORD_SIGNAL"); !text.empty()) {
      out.record_signal = std::atoi(text.data());
      if (out.record_signal < 1 || out.record_signal > 64)
        refuse("TUTTI_RECORD_SIGNAL", text, "a signal", "its number, e.g. 10 for SIGUSR1 on Linux");
    }
    if (std::string_view const text = variable("TUTTI_CHECK"); !text.empty()) {
      if (text != "buffers") refuse("TUTTI_CHECK", text, "a check", "buffers, or leave it");
      out.checks_buffers = true;
    }
    out.record = variable("TUTTI_RECORD");
    out.trace = variable("TUTTI_TRACE");
    out.statistics = variable("TUTTI_STATISTICS") == "1";
    return out;
  }

 private:
  static std::string_view variable(char const* name) {
    char const* const text = std::getenv(name);
    return text == nullptr ? "" : text;
  }
  [[noreturn]] static void refuse(char const* name, std::string_view text, char const* what, char const* way_out) {
    throw error({.code = error_code::bad_argument,
                 .what = join({name, "=\"", text, "\" is not ", what}),
                 .way_out = join({"set it to ", way_out})});
  }
};

}  // namespace tutti::detail
