// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Definitions of training/elastic/snapshots.hpp.
#pragma once

#include <algorithm>

#include "tutti/core/error.hpp"
#include "tutti/core/text.hpp"
#include "tutti/training/elastic/snapshots.hpp"

namespace tutti::detail {

TUTTI_INLINE void expect_same_arrays(std::string_view now, std::string_view before, int rank,
                                     std::source_location where) {
  while (!now.empty() || !before.empty()) {
    std::string_view const one = now.substr(0, now.find('\n')), former = before.substr(0, before.find('\n'));
    if (one != former) {
      constexpr std::string_view none = "no further array";
      throw error({.code = error_code::bad_argument,
                   .rank = rank,
                   .what = join({"the state of elastic training has ", one.empty() ? none : one, ", but had ",
                                 former.empty() ? none : former, " before"}),
                   .way_out = "list the same arrays in the same order whenever the ranks change",
                   .where = where});
    }
    now.remove_prefix(std::min(now.size(), one.size() + 1));
    before.remove_prefix(std::min(before.size(), former.size() + 1));
  }
}

// The elements of an array that come before those of a rank.
TUTTI_INLINE std::uint64_t elements_before(std::span<std::uint64_t const> counts, std::size_t rank, std::size_t array,
                                           std::size_t arrays) {
  std::uint64_t out = 0;
  for (std::size_t r = 0; r < rank; ++r) out += counts[r * arrays + array];
  return out;
}

TUTTI_INLINE snapshot& snapshots::take(moment when, int rank, int ranks, std::vector<std::uint64_t> const& counts,
                                       std::span<training::saved_array const> arrays) {
  used_ = std::min<std::size_t>(used_, 1);
  snapshot& out = kept_[1];
  out.when = when;
  out.rank = rank;
  out.ranks = ranks;
  out.counts = counts;
  for (auto* const all : {&out.replicated, &out.divided, &out.guarded}) all->clear();
  for (auto const& one : arrays) {
    auto& to = one.how == training::spread::replicated ? out.replicated : out.divided;
    to.insert(to.end(), one.bytes.begin(), one.bytes.end());
  }
  return out;
}

TUTTI_INLINE void snapshots::keep_only(moment when) {
  if (used_ == 2 && kept_[1].when == when) std::swap(kept_[0], kept_[1]);
  used_ = used_ > 0 && kept_[0].when == when ? 1 : 0;
}

TUTTI_INLINE void snapshots::restore_replicated(snapshot const& from, std::span<training::saved_array const> arrays) {
  auto at = from.replicated.begin();
  for (auto const& one : arrays) {
    if (one.how != training::spread::replicated) continue;
    std::copy_n(at, one.bytes.size(), one.bytes.begin());
    at += static_cast<std::ptrdiff_t>(one.bytes.size());
  }
}

TUTTI_INLINE std::size_t snapshots::divided_bytes(std::span<std::uint64_t const> counts, std::size_t rank,
                                                  std::span<training::saved_array const> arrays) {
  std::size_t out = 0;
  for (std::size_t a = 0; a < arrays.size(); ++a)
    if (arrays[a].how != training::spread::replicated)
      out += static_cast<std::size_t>(counts[rank * arrays.size() + a]) * arrays[a].element_bytes;
  return out;
}

TUTTI_INLINE void snapshots::place_part(std::span<std::byte const> part, std::span<std::uint64_t const> before,
                                        std::size_t owner, std::span<std::uint64_t const> now, std::size_t rank,
                                        std::span<training::saved_array const> arrays) {
  std::size_t at = 0;
  for (std::size_t a = 0; a < arrays.size(); ++a) {
    if (arrays[a].how == training::spread::replicated) continue;
    std::size_t const bytes = arrays[a].element_bytes;
    std::uint64_t const from = elements_before(before, owner, a, arrays.size()),
                        count = before[owner * arrays.size() + a], mine = elements_before(now, rank, a, arrays.size()),
                        end = std::min(from + count, mine + now[rank * arrays.size() + a]);
    if (std::uint64_t const begin = std::max(from, mine); begin < end)
      std::ranges::copy(part.subspan(at + (begin - from) * bytes, (end - begin) * bytes),
                        arrays[a].bytes.begin() + static_cast<std::ptrdiff_t>((begin - mine) * bytes));
    at += static_cast<std::size_t>(count) * bytes;
  }
}

}  // namespace tutti::detail
