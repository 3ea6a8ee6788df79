// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The arrays of this rank, compared with those of other ranks and of a checkpoint.
#pragma once

#include <cstddef>
#include <cstdint>
#include <source_location>
#include <span>
#include <string>
#include <vector>

#include "tutti/training/checkpoint/manifest.hpp"
#include "tutti/training/checkpoint/saved_array.hpp"

namespace tutti::detail {

// The arrays of this rank, and how many elements of each every rank holds: counts[rank * arrays.size() + array].
struct held_arrays {
  std::span<training::saved_array const> arrays;
  std::vector<std::uint64_t> counts;

  std::size_t ranks() const { return arrays.empty() ? 1 : counts.size() / arrays.size(); }
  std::uint64_t count(std::size_t rank, std::size_t array) const { return counts[rank * arrays.size() + array]; }
  // What each rank saves.
  [[gnu::cold]] std::vector<manifest::array> divide() const;
  // For each array, the number of the first element that this rank holds.
  [[gnu::cold]] std::vector<std::uint64_t> begins(std::size_t rank) const;
  // What differs between these arrays and those of a checkpoint; empty if nothing does.
  [[gnu::cold]] std::string difference_to(manifest const& saved) const;
  // Whether the ranks and what each has of arrays that are per_rank are those of a checkpoint.
  [[gnu::cold]] bool same_per_rank(manifest const& saved) const;
};

// "array weights, replicated, 1000 elements of float32"; the count only where all ranks have as many.
[[gnu::cold]] std::string line_about(training::saved_array const& array);
// Throws error: bad_argument for names that are empty, are used twice or contain a line break, for bytes that are no whole
// number of elements, and for types that have no name.
[[gnu::cold]] void check_arrays(std::span<training::saved_array const> arrays);

// The checksums of arrays that are replicated and comparable, whose bytes are to be the same on all ranks.
[[gnu::cold]] std::vector<std::uint32_t> checksums_of_replicated(std::span<training::saved_array const> arrays);
// Throws error: mismatch for the lowest rank whose checksums differ from those of rank 0, with the name of the first such array.
// `all` has the checksums of each rank.
[[gnu::cold]] void expect_same_replicated(std::span<training::saved_array const> arrays,
                                          std::span<std::uint32_t const> all, int ranks, int rank,
                                          std::source_location where);

}  // namespace tutti::detail

#if !defined(TUTTI_COMPILED)
#include "tutti/training/checkpoint/held_arrays_impl.hpp"
#endif
