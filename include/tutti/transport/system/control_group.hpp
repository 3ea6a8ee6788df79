// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The control groups of this process, as the system lists them in /proc/self/cgroup.
#pragma once

#include <algorithm>
#include <optional>
#include <string_view>

#include "tutti/core/config.hpp"

namespace tutti::detail {

// Takes a text up to a separator from the start of another.
[[gnu::cold]] inline std::string_view take_until(char separator, std::string_view& rest) {
  std::string_view const out = rest.substr(0, rest.find(separator));
  rest.remove_prefix(std::min(rest.size(), out.size() + 1));
  return out;
}

// Whether a list, which commas separate, has this word.
[[gnu::cold]] inline bool lists_word(std::string_view list, std::string_view word) {
  while (!list.empty())
    if (take_until(',', list) == word) return true;
  return false;
}

// The group in the hierarchy of version 1 with this controller, from lines such as "4:memory:/job/step", or, if it is empty, in
// that of version 2, from "0::/job/step".
[[gnu::cold]] inline std::optional<std::string_view> group_in(std::string_view lines, std::string_view controller) {
  while (!lines.empty()) {
    std::string_view group = take_until('\n', lines);
    take_until(':', group);
    std::string_view const controllers = take_until(':', group);
    if (controller.empty() ? controllers.empty() : lists_word(controllers, controller)) return group;
  }
  return {};
}

}  // namespace tutti::detail
