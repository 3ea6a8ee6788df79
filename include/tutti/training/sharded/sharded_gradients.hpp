// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Gradients of a model of which each rank keeps a part.
#pragma once

#include <algorithm>
#include <cstddef>
#include <source_location>
#include <span>
#include <vector>

#include "tutti/call/communicator.hpp"
#include "tutti/training/bucket_plan.hpp"
#include "tutti/training/peer_array.hpp"
#include "tutti/training/sharded/bucket_buffers.hpp"
#include "tutti/training/sharded/master.hpp"
#include "tutti/training/sharded/shard_plan.hpp"
#include "tutti/training/sharded/sharding_statistics.hpp"
#include "tutti/training/sharded_bucket.hpp"
#include "tutti/training/sum_of_squares.hpp"

namespace tutti::detail {

// In stage 1 all gradients have memory of their own, and means replace this rank's part of each bucket. In stages 2 and 3 a
// bucket has memory from the first request for one of its gradients until it is settled, and means are kept in the shard. Means
// of numbers that have a master are kept in the shard in every stage, as masters.
template <class T, class Transport>
class sharded_gradients {
 public:
  using number = training::master_of<T>;

  sharded_gradients(communicator<Transport> const& comm, training::bucket_plan const& plan,
                    training::shard_plan const& shards, bool whole)
      : plan_(plan), shards_(shards), buffers_(comm, plan) {
    if (whole) whole_ = peer_array<T, Transport>(comm, plan.elements);
    if (!whole || training::has_master<T>) shard_.resize(shards.elements);
    is_whole_ = whole;
  }

  bool is_whole() const { return is_whole_; }
  bool has_memory(std::size_t bucket) const { return is_whole_ || buffers_.has(bucket); }
  // Whether a bucket could get memory without an allocation, or if less than `buffers` were allocated.
  bool has_room(std::size_t buffers) const { return buffers_.any_free() || buffers_.allocated() < buffers; }
  void take(std::size_t bucket) {
    auto const gradients = buffers_.take(bucket);
    if (zero_) std::ranges::fill(gradients, T{});
  }

  std::span<T> of_parameter(std::size_t parameter) {
    auto const& place = plan_.places[parameter];
    return of_bucket(place.bucket).subspan(place.begin - plan_.buckets[place.bucket].begin, place.count);
  }
  // Zero, now and when they get memory, until the end of the pass.
  void zero() {
    for (std::size_t b = 0; b < plan_.buckets.size(); ++b)
      if (has_memory(b)) std::ranges::fill(of_bucket(b), T{});
    zero_ = !is_whole_;
  }

  // What a hook gets, in the program's call at `where`. Of several passes, the first leaves its mean where the sum belongs, if that
  // has the same type.
  training::sharded_bucket<T> to_reduce(std::size_t bucket, std::source_location where) {
    return {.index = bucket,
            .gradients = of_bucket(bucket),
            .counts = shards_.counts[bucket],
            .part = place_of_mean(bucket),
            .where = where};
  }
  // Its mean is complete.
  void settle(std::size_t bucket) {
    if (passes_ > 0 || training::has_master<T>) {
      auto const to = mine(bucket);
      std::ranges::transform(to, part_of_memory(bucket), to.begin(),
                             [this](number sum, T mean) { return passes_ > 0 ? sum + number(mean) : number(mean); });
    }
    if (!is_whole_) buffers_.give_back(bucket);
  }
  // This rank's part: the sum of the means of all passes.
  std::span<number> mine(std::size_t bucket) {
    if constexpr (!training::has_master<T>)
      if (is_whole_) return part_of_memory(bucket);
    return std::span(shard_).subspan(shards_.begins[bucket], shards_.mine[bucket].count);
  }

  // The same of a parameter.
  std::span<number> mine(training::owned_part const& part) {
    std::size_t const bucket = plan_.places[part.parameter].bucket;
    return mine(bucket).subspan(part.begin - shards_.begins[bucket], part.elements.count);
  }
  // The sum of the squares of this rank's part of the parameters for which counts(parameter) is true.
  template <class Counts>
  double squares(Counts const& counts) {
    double out = 0;
    for (training::owned_part const& part : shards_.owned) {
      if (counts(part.parameter)) out += sum_of_squares(std::span<number const>(mine(part)));
    }
    return out;
  }

  // Passes since the last step whose means are complete.
  int passes() const { return passes_; }
  void end_pass() {
    ++passes_;
    zero_ = false;
  }
  void end_step() { passes_ = 0; }
  // All that was not settled is lost.
  void abandon() {
    buffers_.give_all_back();
    zero_ = false;
  }

  std::size_t bytes() const { return kept_bytes() + buffers_.bytes(); }
  std::size_t peak_bytes() const { return kept_bytes() + buffers_.peak_bytes(); }

 private:
  std::span<T> of_bucket(std::size_t bucket) {
    auto const& b = plan_.buckets[bucket];
    return is_whole_ ? whole_.all().subspan(b.begin, b.count) : buffers_.of(bucket);
  }
  std::span<T> part_of_memory(std::size_t bucket) {
    return of_bucket(bucket).subspan(shards_.mine[bucket].begin, shards_.mine[bucket].count);
  }
  std::span<T> place_of_mean(std::size_t bucket) {
    if constexpr (!training::has_master<T>)
      if (passes_ == 0) return mine(bucket);
    return part_of_memory(bucket);
  }
  std::size_t kept_bytes() const { return whole_.bytes() + shard_.size() * sizeof(number); }

  training::bucket_plan const& plan_;
  training::shard_plan const& shards_;
  bool is_whole_ = false, zero_ = false;
  int passes_ = 0;
  peer_array<T, Transport> whole_;
  std::vector<number> shard_;
  bucket_buffers<T, Transport> buffers_;
};

}  // namespace tutti::detail
