// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Memory that buckets use in turn.
#pragma once

#include <algorithm>
#include <cstddef>
#include <deque>
#include <limits>
#include <span>
#include <vector>

#include "tutti/call/communicator.hpp"
#include "tutti/training/bucket_plan.hpp"
#include "tutti/training/peer_array.hpp"

namespace tutti::detail {

// Buffers of the size of the largest bucket, allocated when one is needed and none is free.
template <class T, class Transport>
class bucket_buffers {
 public:
  bucket_buffers(communicator<Transport> const& comm, training::bucket_plan const& plan)
      : comm_(comm), plan_(plan), held_(plan.buckets.size(), nobody) {
    for (auto const& bucket : plan.buckets) largest_ = std::max(largest_, bucket.count);
  }

  bool has(std::size_t bucket) const { return held_[bucket] != nobody; }
  bool any_free() const { return !free_.empty(); }
  std::size_t allocated() const { return buffers_.size(); }

  // Throws std::bad_alloc.
  std::span<T> take(std::size_t bucket) {
    if (free_.empty()) {
      buffers_.emplace_back(comm_, largest_);
      free_.push_back(buffers_.size() - 1);
    }
    held_[bucket] = free_.back();
    free_.pop_back();
    return of(bucket);
  }
  std::span<T> of(std::size_t bucket) { return buffers_[held_[bucket]].all().first(plan_.buckets[bucket].count); }
  void give_back(std::size_t bucket) {
    free_.push_back(held_[bucket]);
    held_[bucket] = nobody;
  }
  void give_all_back() {
    for (std::size_t b = 0; b < held_.size(); ++b)
      if (has(b)) give_back(b);
  }

  std::size_t bytes() const { return (buffers_.size() - free_.size()) * largest_ * sizeof(T); }
  std::size_t peak_bytes() const { return buffers_.size() * largest_ * sizeof(T); }

 private:
  static constexpr std::size_t nobody = std::numeric_limits<std::size_t>::max();

  communicator<Transport> const& comm_;
  training::bucket_plan const& plan_;
  std::size_t largest_ = 0;
  std::deque<peer_array<T, Transport>> buffers_;
  std::vector<std::size_t> free_, held_;  // indices of buffers; held_ by each bucket
};

}  // namespace tutti::detail
