// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The reductions of a step: their start, their end, and what they have cost.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <exception>
#include <utility>
#include <vector>

#include "tutti/started/work.hpp"
#include "tutti/training/failure.hpp"
#include "tutti/training/statistics.hpp"

namespace tutti::detail {

// In the order in which buckets are started, their turns, which are numbered from 0.
class buckets_in_flight {
 public:
  using clock = std::chrono::steady_clock;

  // make() starts the reduction of this bucket and returns its work. If it throws, the step has failed: nothing more is started,
  // and expect_started() throws that.
  template <class Make>
  void start(std::size_t bucket, Make&& make) {
    started_.push_back(clock::now());
    if (works_.empty()) first_start_ = last_end_ = started_.front();
    works_.emplace_back();
    buckets_.push_back(bucket);
    attempt([&] { works_.back() = make(); });
  }
  // Calls f(), which starts something, unless the step has failed. It fails if f() throws.
  template <class F>
  void attempt(F&& f) {
    if (failed_) return;
    try {
      f();
    } catch (...) {
      failed_ = std::current_exception();
    }
  }
  void expect_started() {
    if (failed_) std::rethrow_exception(std::exchange(failed_, nullptr));
  }

  // Waits for a reduction, and continues it: make() starts the rest and returns the work of that.
  template <class Make>
  void continue_after(std::size_t turn, Make&& make, training::training_statistics& seen) {
    works_[turn].wait();
    seen.buckets[buckets_[turn]].in_flight += works_[turn].duration();
    count_end(turn, seen);
    started_[turn] = clock::now();
    works_[turn] = make();
  }

  // Whether a reduction has not ended yet.
  bool any() const noexcept { return !std::ranges::all_of(works_, &work::done); }
  // Drives all, which are spread over so many communicators: the last work of each drives all of its works.
  void drive(std::size_t communicators) noexcept {
    std::size_t const number = works_.size();
    for (std::size_t i = number - std::min(number, communicators); i < number; ++i) works_[i].advance();
  }

  // The number that were started, and whether one of them has ended; waits for it.
  std::size_t started() const noexcept { return works_.size(); }
  bool done(std::size_t i) const noexcept { return works_[i].done(); }
  void wait_for(std::size_t i) { works_[i].wait(); }

  // Waits for all, and then for `last`. `begin`: when this rank had nothing left to compute. Calls ended(bucket) when the
  // reduction of a bucket has ended.
  template <class Ended>
  void wait(work& last, clock::time_point begin, training::training_statistics& seen, Ended&& ended) {
    auto before = begin;
    for (std::size_t i = 0; i < works_.size(); ++i) {
      works_[i].wait();
      auto const end = clock::now();
      seen.buckets[buckets_[i]].awaited += end - before;
      seen.buckets[buckets_[i]].in_flight += works_[i].duration();
      ended(buckets_[i]);
      before = clock::now();
    }
    last.wait();
    seen.waited += clock::now() - begin;
  }
  void wait(work& last, clock::time_point begin, training::training_statistics& seen) {
    wait(last, begin, seen, [](std::size_t) {});
  }
  // Counts the step, whose reductions have ended.
  void count(training::training_statistics& seen) {
    ++seen.steps;
    for (std::size_t i = 0; i < works_.size(); ++i) {
      seen.bytes += seen.buckets[buckets_[i]].bytes;
      count_end(i, seen);
    }
    if (!works_.empty()) seen.in_flight += last_end_ - first_start_;
    forget();
  }
  // Waits until nothing is in flight, whether or not it succeeds.
  void abandon() noexcept {
    for (work& w : works_) wait_quietly(w);
    forget();
  }

 private:
  clock::time_point end_of(std::size_t turn) const {
    return started_[turn] + std::chrono::duration_cast<clock::duration>(works_[turn].duration());
  }
  void count_end(std::size_t turn, training::training_statistics& seen) {
    auto const end = end_of(turn);
    seen.busy += std::max(clock::duration{}, end - std::max(started_[turn], last_end_));
    last_end_ = std::max(last_end_, end);
  }
  void forget() noexcept {
    works_.clear();
    buckets_.clear();
    started_.clear();
    failed_ = nullptr;
  }

  std::vector<work> works_;
  std::vector<std::size_t> buckets_;
  std::vector<clock::time_point> started_;
  clock::time_point first_start_{}, last_end_{};  // of this step, as far as ends have been seen
  std::exception_ptr failed_;
};

}  // namespace tutti::detail
