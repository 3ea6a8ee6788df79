// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Definitions of transport/system/memory_limit.hpp.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <string_view>

#include "tutti/core/file.hpp"
#include "tutti/core/text.hpp"
#include "tutti/transport/system/memory_limit.hpp"

namespace tutti::detail {

// The number at the start of a text, after spaces.
TUTTI_INLINE std::optional<std::size_t> leading_number(std::string_view text) {
  text.remove_prefix(std::min(text.size(), text.find_first_not_of(' ')));
  std::uint64_t out = 0;
  if (read_number(text, std::numeric_limits<std::uint64_t>::max(), out) == 0) return {};
  return out;
}

TUTTI_INLINE std::optional<std::size_t> number_in_file(std::string const& path) {
  auto const text = read_file(path);
  return text ? leading_number(*text) : std::nullopt;
}

TUTTI_INLINE std::size_t number_after(std::string const& name, std::string const& path) {
  auto const text = read_file(path);
  if (!text) return 0;
  std::size_t at = 0;
  while (at != text->npos && text->compare(at, name.size(), name) != 0) {
    at = text->find('\n', at);
    if (at != text->npos) ++at;
  }
  return at == text->npos ? 0 : leading_number(std::string_view(*text).substr(at + name.size())).value_or(0);
}

TUTTI_INLINE std::size_t memory_left_in(std::string const& folder) {
  auto limit = number_in_file(join({folder, "/memory.max"})), used = number_in_file(join({folder, "/memory.current"}));
  char const* of_all = "";  // version 1 also counts what the group itself uses, without those inside it
  if (!used) {
    limit = number_in_file(join({folder, "/memory.limit_in_bytes"}));
    used = number_in_file(join({folder, "/memory.usage_in_bytes"}));
    of_all = "total_";
  } else if (auto const high = number_in_file(join({folder, "/memory.high"}))) {
    limit = std::min(*high, limit.value_or(unlimited_memory));
  }
  if (!limit || !used) return unlimited_memory;
  std::string const details = join({folder, "/memory.stat"});
  std::size_t const cached =
      number_after(join({of_all, "inactive_file "}), details) + number_after(join({of_all, "active_file "}), details);
  return *limit - std::min(*limit, *used - std::min(*used, cached));
}

TUTTI_INLINE std::size_t swap_left_in(std::string const& folder) {
  auto const limit = number_in_file(join({folder, "/memory.swap.max"})),
             used = number_in_file(join({folder, "/memory.swap.current"}));
  return limit && used ? *limit - std::min(*limit, *used) : unlimited_memory;
}

TUTTI_INLINE std::size_t memory_left(std::string const& root) {
  std::string const groups = read_file(join({root, "/proc/self/cgroup"})).value_or("");
  std::size_t left = unlimited_memory, swap = 1024 * number_after("SwapFree:", join({root, "/proc/meminfo"}));
  // Lines such as "4:memory:/job/step" of version 1 and "0::/job/step" of version 2.
  for (std::string_view rest = groups; !rest.empty();) {
    std::string_view const line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(rest.size(), line.size() + 1));
    std::size_t const first = line.find(':'), second = line.find(':', first + 1);
    if (second == line.npos) continue;
    std::string_view const kinds = line.substr(first + 1, second - first - 1);
    if (!kinds.empty() && kinds != "memory") continue;
    // Beside version 1, version 2 is in "unified".
    bool const older = !kinds.empty(), beside = !older && !read_file(join({root, "/sys/fs/cgroup/cgroup.controllers"}));
    char const* const mounted = older ? "/memory" : beside ? "/unified" : "";
    // The folders of outer groups too. In a container only the last, which is its own, may exist.
    for (std::string_view group = line.substr(second + 1);;) {
      std::string const folder = join({root, "/sys/fs/cgroup", mounted, group});
      left = std::min(left, memory_left_in(folder));
      swap = std::min(swap, swap_left_in(folder));
      if (group.empty()) break;
      group = group.substr(0, group.rfind('/'));
    }
  }
  return left + std::min(unlimited_memory - left, swap);
}

}  // namespace tutti::detail
