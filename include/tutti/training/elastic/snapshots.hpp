// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copies in memory of a rank's state, to which it returns when ranks are lost.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <source_location>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tutti/core/config.hpp"
#include "tutti/training/checkpoint/saved_array.hpp"

namespace tutti::detail {

// When a snapshot was taken. Ordered as all ranks take them.
struct moment {
  std::uint64_t generation = 0;  // how often the group of ranks has changed
  std::uint64_t step = 0;

  friend constexpr auto operator<=>(moment const&, moment const&) = default;
  friend constexpr bool operator==(moment const&, moment const&) = default;  // nvcc 13 does not derive it
};

struct snapshot {
  moment when{};
  int rank = 0, ranks = 1;              // of the generation
  std::string lines{};                  // about each array
  std::vector<std::uint64_t> counts{};  // elements: counts[rank * arrays + array], of all its ranks
  std::vector<std::byte> replicated{};  // one array after another
  std::vector<std::byte> divided{};     // this rank's parts, one array after another
  std::vector<std::byte> guarded{};     // the same of the rank before this one, the last before the first

  // The rank whose parts this one guards.
  int guarded_rank() const { return (rank + ranks - 1) % ranks; }
};

// Throws error, bad_argument, for the first array that differs between two lists of lines.
[[gnu::cold]] void expect_same_arrays(std::string_view now, std::string_view before, int rank,
                                      std::source_location where);

// The last two, which suffice because no rank takes one before all others have taken the one before it. So of the snapshots
// that are the last of some rank, every rank has the oldest.
class snapshots {
 public:
  // Copies the arrays, into the memory of the older of two snapshots. The caller fills `guarded`, and then calls complete();
  // until then, the copy does not count.
  [[gnu::cold]] snapshot& take(moment when, int rank, int ranks, std::vector<std::uint64_t> const& counts,
                               std::span<training::saved_array const> arrays);
  void complete() {
    std::swap(kept_[0], kept_[1]);
    ++used_;
  }

  snapshot const* last() const { return used_ == 0 ? nullptr : &kept_[0]; }
  snapshot const* find(moment when) const {
    for (std::size_t i = 0; i < used_; ++i)
      if (kept_[i].when == when) return &kept_[i];
    return nullptr;
  }
  // Forgets all but this one.
  [[gnu::cold]] void keep_only(moment when);

  // Copies those of the arrays that are replicated back.
  [[gnu::cold]] static void restore_replicated(snapshot const& from, std::span<training::saved_array const> arrays);
  // The bytes of the divided arrays of a rank.
  [[gnu::cold]] static std::size_t divided_bytes(std::span<std::uint64_t const> counts, std::size_t rank,
                                                 std::span<training::saved_array const> arrays);
  // Copies the elements of a part, which are those of rank `owner` of the layout `before`, to where they belong in the arrays
  // of `rank` of the layout `now`.
  [[gnu::cold]] static void place_part(std::span<std::byte const> part, std::span<std::uint64_t const> before,
                                       std::size_t owner, std::span<std::uint64_t const> now, std::size_t rank,
                                       std::span<training::saved_array const> arrays);

 private:
  snapshot kept_[2];  // the newest first
  std::size_t used_ = 0;
};

}  // namespace tutti::detail

#if !defined(TUTTI_COMPILED)
#include "tutti/training/elastic/snapshots_impl.hpp"
#endif
