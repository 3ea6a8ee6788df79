// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Files that are complete or absent, whenever the program or the machine stops.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "tutti/core/config.hpp"

namespace tutti::detail {

struct written_file {
  std::uint64_t bytes = 0;
  std::uint32_t checksum = 0;
};

// Writes folder/name.new, flushes it to the disk, renames it to folder/name and flushes the folder. Throws error: system.
[[gnu::cold]] written_file write_durably(std::string const& folder, std::string const& name,
                                         std::span<std::span<std::byte const> const> parts);
// Creates a folder; the second one unless it exists, and it flushes the folder that contains it, so that a crash of the machine
// does not take all away. Throws error: system.
[[gnu::cold]] void make_folder(std::string const& path);
[[gnu::cold]] void make_durable_folder(std::string const& path);
// Makes the entries of a folder outlive a crash of the machine. Throws error: system.
[[gnu::cold]] void flush_folder(std::string const& path);

// Reads a file whole and returns its size and checksum; the first bytes go to `head`. Throws error: system.
[[gnu::cold]] written_file checksum_file(std::string const& path, std::span<char> head);

// A run of bytes of a file, and where they go.
struct wanted_bytes {
  std::uint64_t offset = 0;
  std::span<std::byte> to{};
};
// Throws error: system.
[[gnu::cold]] void read_parts(std::string const& path, std::span<wanted_bytes const> parts);

}  // namespace tutti::detail

#if !defined(TUTTI_COMPILED)
#include "tutti/training/checkpoint/durable_file_impl.hpp"
#endif
