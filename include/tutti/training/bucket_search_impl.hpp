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
    : steps_(static_cast<std::size_t>(range.steps)) {
  std::size_t const most = std::max(range.least_bytes, std::min(range.most_bytes, all));
  sizes_.push_back(std::clamp(bytes, range.least_bytes, most));
  std::size_t size = range.least_bytes;
  while (true) {
    if (size != sizes_[0]) sizes_.push_back(size);
    if (size == most) return;
    size = size > most / 4 ? most : size * 4;
  }
}

TUTTI_INLINE bool bucket_search::saw(std::chrono::nanoseconds cost) {
  if (std::exchange(skip_, false)) return false;
  seen_.push_back(cost);
  return seen_.size() == steps_;
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
    if (agreed <= settled_cost_ * 3 / 2) return;
    settled_ = false;
    costs_.clear();
    return use(0);
  }
  costs_.push_back(agreed);
  std::size_t const sizes = sizes_.size(), tried = costs_.size();
  if (tried < sizes) return use(tried);
  auto const cheapest = std::min_element(costs_.begin(), costs_.begin() + static_cast<std::ptrdiff_t>(sizes));
  auto const best = static_cast<std::size_t>(cheapest - costs_.begin());
  bool better = *cheapest * 10 <= costs_[0] * 9;
  if (better && tried == sizes) return use(0);
  if (better && tried == sizes + 1) return use(best);
  if (better) better = costs_[sizes + 1] * 10 <= costs_[sizes] * 9;
  settled_ = true;
  settled_cost_ = better ? std::max(*cheapest, costs_.back()) : costs_[0];
  use(better ? best : 0);
}

TUTTI_INLINE void bucket_search::use(std::size_t index) { skip_ = std::exchange(now_, index) != index; }

}  // namespace tutti::detail
