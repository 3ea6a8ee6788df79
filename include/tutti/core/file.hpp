// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Reads a file.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "tutti/core/config.hpp"

namespace tutti::detail {

inline constexpr std::size_t max_file_bytes = std::size_t{64} << 20;

// The text of a file, or nothing if it cannot be read; errno then has the reason: EFBIG for a file that is larger, or has no
// end, as /dev/zero. Never waits: a pipe is empty, or EAGAIN.
[[gnu::cold]] std::optional<std::string> read_file(std::string const& path);
// The same; empty if it cannot be read.
[[gnu::cold]] std::string text_of_file(std::string const& path);

}  // namespace tutti::detail

#if !defined(TUTTI_COMPILED)
#include "tutti/core/file_impl.hpp"
#endif
