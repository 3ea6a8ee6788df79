// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Definitions of transport/system/memory_limit.hpp.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

#include "tutti/core/file.hpp"
#include "tutti/core/text.hpp"
#include "tutti/transport/system/control_group.hpp"
#include "tutti/transport/system/memory_limit.hpp"

namespace tutti::detail {

// The number at the start of a text, after spaces.
TUTTI_INLINE std::optional<std::size_t> leading_number(std::string_view text) {
  text.remove_prefix(std::min(text.size(), text.find_first_not_of(' ')));
  std::uint64_t out = 0;
  if (read_number(text, std::numeric_limits<std::uint64_t>::max(), out) == 0) return {};
  return out;
}

TUTTI_INLINE std::optional<std::size_t> number_in_file(std::string const& folder, char const* file) {
  auto const text = read_file(join({folder, file}));
  return text ? leading_number(*text) : std::nullopt;
}

TUTTI_INLINE std::size_t number_after(std::string_view name, std::string const& folder, char const* file) {
  auto const text = read_file(join({folder, file}));
  if (!text) return 0;
  std::size_t at = 0;
  while (at != text->npos && text->compare(at, name.size(), name) != 0) {
    at = text->find('\n', at);
    if (at != text->npos) ++at;
  }
  return at == text->npos ? 0 : leading_number(std::string_view(*text).substr(at + name.size())).value_or(0);
}

// What is left of a limit, if cached files, which the system can drop, do not count as used.
TUTTI_INLINE std::size_t left_of(std::size_t limit, std::size_t used, std::size_t cached) {
  return limit - std::min(limit, used - std::min(used, cached));
}

// The bytes of files that a group keeps in memory. Version 1 also counts what the group itself keeps, without those
// inside it.
TUTTI_INLINE std::size_t cached_in(std::string const& folder, bool older) {
  return number_after(older ? "total_inactive_file " : "inactive_file ", folder, "/memory.stat") +
         number_after(older ? "total_active_file " : "active_file ", folder, "/memory.stat");
}

TUTTI_INLINE std::size_t memory_left_in(std::string const& folder) {
  auto limit = number_in_file(folder, "/memory.max"), used = number_in_file(folder, "/memory.current");
  bool const older = !used;
  if (older) {
    limit = number_in_file(folder, "/memory.limit_in_bytes");
    used = number_in_file(folder, "/memory.usage_in_bytes");
  } else if (auto const high = number_in_file(folder, "/memory.high")) {
    limit = std::min(*high, limit.value_or(unlimited_memory));
  }
  return limit && used ? left_of(*limit, *used, cached_in(folder, older)) : unlimited_memory;
}

TUTTI_INLINE std::size_t swap_left_in(std::string const& folder) {
  auto const limit = number_in_file(folder, "/memory.swap.max"), used = number_in_file(folder, "/memory.swap.current");
  return limit && used ? left_of(*limit, *used, 0) : unlimited_memory;
}

TUTTI_INLINE std::size_t memory_and_swap_left_in(std::string const& folder) {
  auto const limit = number_in_file(folder, "/memory.memsw.limit_in_bytes"),
             used = number_in_file(folder, "/memory.memsw.usage_in_bytes");
  return limit && used ? left_of(*limit, *used, cached_in(folder, true)) : unlimited_memory;
}

// A path as mountinfo has it: "\040" is a space.
TUTTI_INLINE std::string without_octal(std::string_view path) {
  std::string out;
  for (std::size_t i = 0; i < path.size(); ++i) {
    int code = 0, digits = 0;
    if (path[i] == '\\')
      for (; digits < 3 && i + 1 < path.size() && path[i + 1] >= '0' && path[i + 1] <= '7'; ++digits)
        code = 8 * code + (path[++i] - '0');
    out += digits > 0 ? static_cast<char>(code) : path[i];
  }
  return out;
}

TUTTI_INLINE std::size_t memory_left(std::string const& root) {
  std::string const groups = text_of_file(join({root, "/proc/self/cgroup"})),
                    mounts = text_of_file(join({root, "/proc/self/mountinfo"}));
  std::size_t left = unlimited_memory, both = left, swap = 1024 * number_after("SwapFree:", root, "/proc/meminfo");
  // Lines such as "35 31 0:32 /part /sys/fs/cgroup/memory rw shared:9 - cgroup cgroup rw,memory": a part of a hierarchy of
  // version 1, and where it is mounted.
  for (std::string_view rest = mounts; !rest.empty();) {
    std::string_view line = take_until('\n', rest);
    std::string_view kind = line.substr(std::min(line.size(), line.find(" - ") + 3));
    std::string_view const type = take_until(' ', kind);
    take_until(' ', kind);  // the source
    bool const older = type == "cgroup" && lists_word(kind, "memory");
    auto const mine = older || type == "cgroup2" ? group_in(groups, older ? "memory" : "") : std::nullopt;
    if (!mine) continue;
    for (int i = 0; i < 3; ++i) take_until(' ', line);
    std::string const part = without_octal(take_until(' ', line)), mounted = without_octal(take_until(' ', line));
    std::string_view group = *mine;
    if (group.starts_with(part) && group.substr(part.size()).starts_with('/')) group.remove_prefix(part.size());
    if (group == part || group == "/") group = "";
    // The folders of outer groups too. In a container only the last, which is its own, may exist.
    for (;; group = group.substr(0, std::min(group.rfind('/'), group.size() - 1))) {
      std::string const folder = join({root, mounted, group});
      left = std::min(left, memory_left_in(folder));
      swap = std::min(swap, swap_left_in(folder));
      both = std::min(both, memory_and_swap_left_in(folder));
      if (group.empty()) break;
    }
  }
  return std::min(both, left + std::min(unlimited_memory - left, swap));
}

}  // namespace tutti::detail
