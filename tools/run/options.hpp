// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The command line of tutti-run.
#pragma once

#include <charconv>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "tutti/core/shape.hpp"

namespace launcher {

struct options {
  int ranks = 0;
  bool prefix = false;
  bool recovers = false;
  int min_ranks = 0;  // of an elastic job; 0 for any other
  int restarts = 100;
  double seconds = 0;
  std::vector<std::string> command;

  bool is_elastic() const { return min_ranks > 0; }
};

inline constexpr double longest_limit = 1e9;  // seconds

// "2:8"
inline std::optional<std::pair<int, int>> parse_range(std::string const& text) {
  int least = 0, most = 0;
  char const* const end = text.data() + text.size();
  auto const [colon, trouble] = std::from_chars(text.data(), end, least);
  if (trouble != std::errc{} || colon == end || *colon != ':') return {};
  auto const [last, more_trouble] = std::from_chars(colon + 1, end, most);
  if (more_trouble != std::errc{} || last != end || least < 1 || most < least || most > tutti::max_ranks) return {};
  return std::pair(least, most);
}

inline bool is_limit(std::string const& text) {
  double seconds = 0;
  auto const [end, trouble] = std::from_chars(text.data(), text.data() + text.size(), seconds);
  return trouble == std::errc{} && end == text.data() + text.size() && seconds > 0 && seconds <= longest_limit;
}

}  // namespace launcher
