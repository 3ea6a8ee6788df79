// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Definitions of training/bucket_turns.hpp.
#pragma once

#include <algorithm>
#include <numeric>

#include "tutti/core/config.hpp"
#include "tutti/training/bucket_turns.hpp"

namespace tutti::detail {

TUTTI_INLINE void bucket_order::begin(training::bucket_plan const& plan, bool by_need) {
  preferred_.resize(plan.buckets.size());
  std::iota(preferred_.begin(), preferred_.end(), std::size_t{0});
  if (by_need)
    std::ranges::sort(preferred_, {}, [&](std::size_t b) { return std::ranges::min(plan.buckets[b].parameters); });
  turns_.assign(preferred_.size(), not_taken);
  taken_ = first_left_ = first_preferred_ = 0;
}

TUTTI_INLINE std::size_t bucket_order::take(std::size_t full) {
  std::size_t at = first_preferred_;
  while (preferred_[at] >= full || is_taken(preferred_[at])) ++at;
  std::size_t const bucket = preferred_[at];
  turns_[bucket] = taken_++;
  while (first_left_ < turns_.size() && is_taken(first_left_)) ++first_left_;
  while (first_preferred_ < turns_.size() && is_taken(preferred_[first_preferred_])) ++first_preferred_;
  return bucket;
}

}  // namespace tutti::detail
