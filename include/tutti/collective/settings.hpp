// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What the environment says: TUTTI_TIMEOUT and TUTTI_ALGORITHM. Read once a communicator.
#pragma once

#include <chrono>
#include <cstdlib>
#include <string>

#include "tutti/core/error.hpp"
#include "tutti/tune/overrides.hpp"

namespace tutti {

struct settings {
  std::chrono::nanoseconds timeout = std::chrono::minutes(5);
  overrides algorithms{};

  [[gnu::cold]] static settings from_environment() {
    settings out;
    if (char const* const text = std::getenv("TUTTI_TIMEOUT")) {
      char* end = nullptr;
      double const seconds = std::strtod(text, &end);
      if (end == text || *end != '\0' || !(seconds > 0 && seconds < 1e9))
        throw error({.code = error_code::bad_argument,
                     .what = std::string("TUTTI_TIMEOUT=\"") + text + "\" is not a time",
                     .way_out = "set it to a number of seconds above 0, e.g. 300"});
      out.timeout = std::chrono::nanoseconds(static_cast<long long>(seconds * 1e9));
    }
    if (char const* const text = std::getenv("TUTTI_ALGORITHM")) out.algorithms = overrides(text);
    return out;
  }
};

}  // namespace tutti
