// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The manifest of a checkpoint: which files it has, and what they contain.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tutti/training/checkpoint/saved_array.hpp"

namespace tutti::detail {

// A checkpoint is one sequence of elements for each array. Shard r, written by rank r, holds a run of each: those of
// lower shards come before. The text ends with a checksum of itself, and has a number that its shards begin with, so that
// files of different checkpoints are not mixed.
struct manifest {
  struct shard {
    std::uint64_t bytes = 0;  // of the file
    std::uint32_t checksum = 0;
  };
  struct array {
    std::string name;
    training::spread how = training::spread::replicated;
    std::uint64_t element_bytes = 1;
    std::vector<std::uint64_t> counts{};  // elements in each shard
    std::string type = "bytes";           // of an element; any_type in a checkpoint of version 1 of the format

    std::uint64_t total() const;
  };

  std::uint64_t identity = 0;
  std::uint64_t step = 0;
  std::vector<shard> shards{};
  std::vector<array> arrays{};

  // The line that shard `index` begins with; all have the same length.
  static constexpr std::size_t head_bytes = 64;
  std::string head(std::size_t index) const;

  std::string text() const;
  // Throws error: system, with what is wrong as happened().
  static manifest parse(std::string_view text);
};

// The type of elements where it is not known: it matches any.
inline constexpr std::string_view any_type = "any";

[[gnu::cold]] std::string_view name_of_spread(training::spread how);
// A name of letters, digits and underscores.
[[gnu::cold]] bool is_name_of_type(std::string_view type);

}  // namespace tutti::detail

#if !defined(TUTTI_COMPILED)
#include "tutti/training/checkpoint/manifest_impl.hpp"
#endif
