// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The memory that control groups (cgroups, by which containers and batch systems limit memory) leave to this process. The
// system kills a process that touches more.
#pragma once

#include <cstddef>
#include <limits>
#include <string>
#include <string_view>

#include "tutti/core/config.hpp"

namespace tutti::detail {

inline constexpr std::size_t unlimited_memory = std::numeric_limits<std::size_t>::max();

// The number that follows a name at the start of a line of a file; 0 if there is none.
[[gnu::cold]] std::size_t number_after(std::string_view name, std::string const& folder, char const* file);

// What the group with this folder, of version 1 or 2, leaves to its processes. Cached files count as left, because the system
// drops them when memory is short. Above memory.high of version 2, the system does not kill them, but hardly lets them run.
[[gnu::cold]] std::size_t memory_left_in(std::string const& folder);

// The same of the swap, which version 2 limits by itself, and of memory and swap together, as version 1 does.
[[gnu::cold]] std::size_t swap_left_in(std::string const& folder);
[[gnu::cold]] std::size_t memory_and_swap_left_in(std::string const& folder);

// What all groups that this process is in leave to it, and the room in the swap. `root`: of the system's files, for tests.
[[gnu::cold]] std::size_t memory_left(std::string const& root = "");

}  // namespace tutti::detail

#if !defined(TUTTI_COMPILED)
#include "tutti/transport/system/memory_limit_impl.hpp"
#endif
