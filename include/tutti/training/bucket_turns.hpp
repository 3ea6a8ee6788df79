// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Ranks begin the reductions of buckets in the same order, also where they decide on it during the step.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <source_location>
#include <span>
#include <string_view>
#include <vector>

#include "tutti/call/communicator.hpp"
#include "tutti/collective/all_reduce.hpp"
#include "tutti/collective/split.hpp"
#include "tutti/core/error.hpp"
#include "tutti/reduce/ops.hpp"
#include "tutti/started/asynchronous.hpp"
#include "tutti/started/work.hpp"
#include "tutti/training/bucket_plan.hpp"
#include "tutti/training/buckets_in_flight.hpp"
#include "tutti/training/failure.hpp"
#include "tutti/training/options.hpp"

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

// In the order of the plan, ranks need not agree: each begins a bucket when it is full there.
//
// By priority, the next bucket is the most urgent of those that are full on all ranks. No rank knows these by itself: it can
// neither know how far the others are, nor conclude it from the end of a reduction, which they see at other moments of their
// backward passes. So ranks vote before each turn. A vote is the number of buckets at the start of the plan that are full here;
// the least of the votes counts, and from it and the turns so far all ranks compute the same bucket. (It could not travel with the
// gradients: one element more would change how they are divided among the ranks, and so their bits, and hooks would compress it.)
//
//   - A rank votes as soon as the first bucket of the plan that is left is full. So every vote is greater than the index of that
//     bucket: at least one bucket can be chosen, and the one chosen is full on all ranks.
//   - Of `concurrent` buckets in flight and one that waits behind them, one must have ended. What has not begun can still be
//     overtaken, so a gradient that is urgent waits for at most so many buckets.
//   - The last bucket needs no vote.
//   - Votes have a communicator of their own, so they neither wait for buckets nor depend on which of these have ended.
//
// Cost of a vote: an all_reduce of 8 bytes, while the bucket before is in flight.
template <class Transport>
class bucket_turns {
 public:
  explicit bucket_turns(communicator<Transport>& comm) : comm_(comm) {}

  // Collective. Creates the communicators.
  void open(training::data_parallel_options const& options, std::source_location where) {
    most_ = static_cast<std::size_t>(options.concurrent) + 1;
    for (int i = 1; i < options.concurrent; ++i) others_.push_back(comm_.split(0, 0, where).value());
    if (!options.by_priority) return;
    votes_.emplace(comm_.split(0, 0, where).value());
    if (options.find_unused) uses_.emplace(comm_.split(0, 0, where).value());
  }
  // Begins a step.
  void begin(training::bucket_plan const& plan) {
    order_.begin(plan, by_priority());
    voting_ = false;
  }

  bool by_priority() const noexcept { return votes_.has_value(); }
  bool has_begun(std::size_t bucket) const { return order_.is_taken(bucket); }
  bool all_begun() const noexcept { return order_.left() == 0; }
  std::size_t turn(std::size_t bucket) const { return order_.turn(bucket); }
  std::span<std::size_t const> preferred() const noexcept { return order_.preferred(); }

  // The bucket that this rank begins now, if there is one. The first `full` of the plan are full here.
  std::optional<std::size_t> next(std::size_t full, buckets_in_flight const& flight, std::source_location where) {
    if (!voting_) {
      if (!order_.has(full)) return {};
      if (!by_priority() || order_.left() == 1) return order_.take(full);
      if (order_.taken() >= most_ && !flight.done(order_.taken() - most_)) return {};
      full_ = {full};
      vote_ = all_reduce(async(*votes_), full_, min{}, {}, where);
      voting_ = true;
    }
    vote_.advance();
    if (!vote_.done() || vote_.exception()) return {};
    voting_ = false;
    return order_.take(full_[0]);
  }
  // Waits until next() may return a bucket: called after it has returned none although all buckets are full here.
  void wait(buckets_in_flight& flight) {
    if (voting_) vote_.wait();
    else flight.wait_for(order_.taken() - most_);
  }

  // On which this bucket, which has begun, is reduced; their number; and the one on which ranks tell each other in the same step
  // which parameters they have used, after they have begun all buckets or by priority at any time.
  communicator<Transport>& communicator_of(std::size_t bucket) {
    std::size_t const which = turn(bucket) % communicators();
    return which == 0 ? comm_ : others_[which - 1];
  }
  std::size_t communicators() const noexcept { return others_.size() + 1; }
  communicator<Transport>& communicator_of_uses() { return uses_ ? *uses_ : comm_; }

  // Ends all calls of all ranks for these buckets: because of a rank that is lost, or by `revoked`. Nothing happens to a
  // communicator that has a fault already.
  void end(std::optional<error> const& lost, std::string_view why) noexcept {
    auto const end_one = [&](communicator<Transport>& one) {
      lost ? revoke_quietly(one, *lost) : revoke_quietly(one, why);
    };
    end_one(comm_);
    for (auto& other : others_) end_one(other);
    if (votes_) end_one(*votes_);
    if (uses_) end_one(*uses_);
  }
  // Waits until no vote is in flight.
  void abandon() noexcept { wait_quietly(vote_); }

 private:
  communicator<Transport>& comm_;
  std::vector<communicator<Transport>> others_;  // on which buckets are reduced at the same time
  std::optional<communicator<Transport>> votes_, uses_;
  std::size_t most_ = 2;  // buckets that have begun and not ended, if the order is that of need
  bucket_order order_;
  std::array<std::uint64_t, 1> full_{};
  work vote_;
  bool voting_ = false;  // about the next turn
};

}  // namespace tutti::detail

#if !defined(TUTTI_COMPILED)
#include "tutti/training/bucket_turns_impl.hpp"
#endif
