// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Definitions of training/bucket_search.hpp.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <utility>
#include <vector>

#include "tutti/core/config.hpp"
#include "tutti/training/bucket_search.hpp"

namespace tutti::detail {

TUTTI_INLINE bucket_search::bucket_search(training::adaptive_buckets const& range, std::size_t bytes, std::size_t all)
    : range_(range) {
  range_.most_bytes = std::max(range.least_bytes, std::min(range.most_bytes, all));
  bytes_ = std::clamp(bytes, range.least_bytes, range_.most_bytes);
}

TUTTI_INLINE bool bucket_search::saw(std::chrono::nanoseconds cost) {
  if (std::exchange(skip_, false)) return false;
  seen_.push_back(cost);
  return seen_.size() == static_cast<std::size_t>(range_.steps);
}

TUTTI_INLINE std::chrono::nanoseconds bucket_search::median() const {
  auto sorted = seen_;
  auto const middle = sorted.begin() + static_cast<std::ptrdiff_t>(sorted.size() / 2);
  std::ranges::nth_element(sorted, middle);
  return *middle;
}

TUTTI_INLINE void bucket_search::judge(std::chrono::nanoseconds agreed) {
  seen_.clear();
  if (settled_) {
    if (agreed <= trials_.front().cost * 3 / 2) return;
    trials_.clear();
    settled_ = false;
  }
  trials_.push_back({bytes_, agreed});
  std::size_t const best = cheapest(), next = next_to(best);
  if (next != 0) return use(next);
  settled_ = true;
  std::erase_if(trials_, [best](trial const& t) { return t.bytes != best; });
  use(best);
}

TUTTI_INLINE void bucket_search::use(std::size_t bytes) { skip_ = std::exchange(bytes_, bytes) != bytes; }

TUTTI_INLINE std::size_t bucket_search::cheapest() const {
  auto best = trials_.begin();
  for (auto t = trials_.begin(); t != trials_.end(); ++t)
    if (t->cost * 20 < best->cost * 19) best = t;
  return best->bytes;
}

TUTTI_INLINE std::size_t bucket_search::next_to(std::size_t bytes) const {
  std::size_t const twice = bytes > range_.most_bytes / 2 ? range_.most_bytes : bytes * 2;
  for (std::size_t const candidate : {twice, std::max(bytes / 2, range_.least_bytes)})
    if (std::ranges::find(trials_, candidate, &trial::bytes) == trials_.end()) return candidate;
  return 0;
}

}  // namespace tutti::detail
