// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Which bucket is reduced next.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "tutti/training/bucket_plan.hpp"

namespace tutti::detail {

// Hands out each bucket of a step once. The first `full` buckets of the plan may be handed out: of these, the first one of the
// plan that is left, or, by need, the one that the next forward pass needs first. That pass is assumed to use the parameters in
// the order of their list.
class bucket_order {
 public:
  void begin(training::bucket_plan const& plan, bool by_need);

  std::size_t taken() const noexcept { return taken_; }
  std::size_t left() const noexcept { return preferred_.size() - taken_; }
  bool has(std::size_t full) const noexcept { return first_left_ < full; }
  // Call it only if has(full).
  std::size_t take(std::size_t full);

  // The number of buckets that were taken before this one, which was taken.
  std::size_t turn(std::size_t bucket) const { return turns_[bucket]; }
  bool is_taken(std::size_t bucket) const { return turns_[bucket] != not_taken; }

  // All buckets, in the order in which they would be taken if all were full.
  std::span<std::size_t const> preferred() const noexcept { return preferred_; }

 private:
  static constexpr std::size_t not_taken = static_cast<std::size_t>(-1);

  std::vector<std::size_t> preferred_;
  std::vector<std::size_t> turns_;  // of each bucket
  std::size_t taken_ = 0;
  std::size_t first_left_ = 0;       // the first bucket of the plan that is left
  std::size_t first_preferred_ = 0;  // the place in preferred_ of the first one that is left
};

}  // namespace tutti::detail

#if !defined(TUTTI_COMPILED)
#include "tutti/training/bucket_order_impl.hpp"
#endif
