// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The steps of data_parallel: from the gradients of this rank to the means of all.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <source_location>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tutti/call/communicator.hpp"
#include "tutti/collective/all_reduce.hpp"
#include "tutti/reduce/ops.hpp"
#include "tutti/started/asynchronous.hpp"
#include "tutti/started/work.hpp"
#include "tutti/training/backward_pass.hpp"
#include "tutti/training/bucket.hpp"
#include "tutti/training/bucket_turns.hpp"
#include "tutti/training/buckets_in_flight.hpp"
#include "tutti/training/failure.hpp"
#include "tutti/training/gradient_array.hpp"
#include "tutti/training/options.hpp"
#include "tutti/training/statistics.hpp"

namespace tutti::detail {

// Starts the reductions of full buckets when their turn has come, and waits for them. The gradients must outlive this object.
// Functions that begin with expect_ throw bad_argument; report() does so, too; the others throw only what reductions throw.
template <class T, class Transport, class Hook>
class bucket_reductions {
 public:
  using clock = buckets_in_flight::clock;

  bucket_reductions(communicator<Transport>& comm, gradient_array<T, Transport>& gradients,
                    std::vector<std::string> names, Hook&& some)
      : hook(std::move(some)),
        pass(std::move(names), comm.rank()),
        used(pass.number(), 1),
        turns_(comm),
        gradients_(gradients) {}

  Hook hook;
  backward_pass pass;
  std::vector<std::uint8_t> used;  // by any rank
  training::training_statistics statistics{};

  // Collective.
  void open(training::data_parallel_options const& options, std::source_location where) {
    find_unused_ = options.find_unused;
    turns_.open(options, where);
  }
  // Begins a step.
  void begin() {
    pass.begin(gradients_.plan());
    turns_.begin(gradients_.plan());
    cleared_.assign(gradients_.plan().buckets.size(), false);
    pass_begin_ = {};
    knows_used_ = false;
  }
  // The gradients were divided into buckets anew.
  void begin_layout() {
    statistics.buckets.clear();
    for (auto const& b : gradients_.plan().buckets) statistics.buckets.push_back({.bytes = b.count * sizeof(T)});
    begin();
  }

  void report(std::size_t parameter, std::source_location where) {
    pass.report(parameter, where);
    if (pass.accumulates()) return;
    auto const begin = clock::now();
    if (pass_begin_ == clock::time_point()) pass_begin_ = begin;
    while (pass.next_is_full()) pass.take_next();
    start_some(where);
    statistics.driven += clock::now() - begin;
  }
  void expect_complete(std::string_view call, std::source_location where) const {
    pass.expect_last(call, where);
    if (!find_unused_ && !pass.has_ended()) pass.expect_all(call, where);
  }
  // Ends the pass, and waits for the mean of this parameter.
  void wait(std::size_t parameter, std::source_location where) {
    auto const begin = clock::now();
    std::size_t const bucket = gradients_.plan().places[parameter].bucket;
    end_pass(where);
    start_until([&] { return turns_.has_begun(bucket); }, where);
    in_flight_.wait_for(turns_.turn(bucket));
    learn_used();
    clear_unused(bucket, where);
    statistics.buckets[bucket].awaited += clock::now() - begin;
    start_some(where);
    statistics.waited += clock::now() - begin;
  }
  // The same for all.
  void wait_for_all(std::source_location where) {
    auto const begin = clock::now();
    end_pass(where);
    start_until([&] { return turns_.all_begun(); }, where);
    in_flight_.wait(agreement_, begin, statistics);
    in_flight_.count(statistics);
    learn_used();
    for (std::size_t b = 0; b < cleared_.size(); ++b) clear_unused(b, where);
    statistics.passes += clock::now() - (pass_begin_ == clock::time_point() ? begin : pass_begin_);
  }

  // Calls f(). If it throws, the step ends on all ranks.
  template <class F>
  void end_on_exception(F&& f) {
    try {
      f();
    } catch (...) {
      turns_.end(reported_loss(), with_reason("a step of training has failed there"));
      abandon();
      begin();
      throw;
    }
  }
  // The program leaves a step. If it does so by an exception, other ranks may not; and by priority, ranks may have begun
  // different buckets.
  void leave(bool by_exception) noexcept {
    if ((in_flight_.any() || pass.has_reports()) && (by_exception || turns_.by_priority()))
      turns_.end({}, "the model that it trains is destroyed in a step");
    abandon();
  }

 private:
  // Gradients that nobody reported count as zeros; those that earlier passes have added up are complete.
  void end_pass(std::source_location where) {
    if (pass.has_ended()) return;
    for (std::size_t i = 0; i < gradients_.size(); ++i)
      if (pass.used()[i] == 0) std::ranges::fill(gradients_.of_parameter(i), T{});
    pass.end();
    start_some(where);
    in_flight_.expect_started();
    if (find_unused_) agreement_ = all_reduce(async(turns_.communicator_of_uses()), pass.used(), max{}, {}, where);
    if constexpr (training::hook_of_two_rounds<Hook, T, Transport>) start_second_rounds(where);
  }
  // Starts the reductions whose turn has come, and drives those in flight.
  void start_some(std::source_location where) {
    bool started = true;
    while (std::exchange(started, false)) {
      if (!has_progress_thread(turns_.communicator_of_uses())) in_flight_.drive(turns_.communicators());
      in_flight_.attempt([&] { started = start_next(where); });
    }
  }
  // Once the pass has ended: starts reductions until there are enough.
  template <class Enough>
  void start_until(Enough const& enough, std::source_location where) {
    while (!enough()) {
      in_flight_.expect_started();
      if (!start_next(where)) turns_.wait(in_flight_);
    }
    in_flight_.expect_started();
  }
  bool start_next(std::source_location where) {
    auto const bucket = turns_.next(pass.taken(), in_flight_, where);
    if (!bucket) return false;
    auto const some = gradients_.of_bucket(*bucket, where);
    statistics.message_bytes += training::message_bytes(hook, some);
    in_flight_.start(*bucket, [&] { return hook(some, turns_.communicator_of(*bucket)); });
    return true;
  }
  void start_second_rounds(std::source_location where) {
    start_until([&] { return turns_.all_begun(); }, where);
    for (std::size_t const b : turns_.preferred())
      in_flight_.continue_after(
          turns_.turn(b), [&] { return hook.second_round(gradients_.of_bucket(b, where), turns_.communicator_of(b)); },
          statistics);
  }
  void learn_used() {
    if (knows_used_) return;
    agreement_.wait();
    used = pass.used();
    knows_used_ = true;
  }
  // Of a bucket that is reduced, once in a step: a parameter that no rank has used has a gradient of zero, whatever a hook has sent.
  void clear_unused(std::size_t bucket, std::source_location where) {
    if (!find_unused_ || std::exchange(cleared_[bucket], true)) return;
    auto const some = gradients_.of_bucket(bucket, where);
    std::vector<training::bucket_part<T>> unused;
    std::ranges::copy_if(some.parts, std::back_inserter(unused), [&](auto& part) { return used[part.parameter] == 0; });
    if constexpr (training::hook_that_takes_back<Hook, T>)
      if (!unused.empty()) hook.take_back({some.index, some.gradients, unused, where});
    for (auto const& part : unused) std::ranges::fill(part.gradient, T{});
  }
  // Waits until nothing is in flight, whether or not it succeeds.
  void abandon() noexcept {
    in_flight_.abandon();
    turns_.abandon();
    wait_quietly(agreement_);
  }

  buckets_in_flight in_flight_;
  bucket_turns<Transport> turns_;
  gradient_array<T, Transport>& gradients_;
  work agreement_;  // on the parameters that are used
  clock::time_point pass_begin_{};
  bool find_unused_ = false, knows_used_ = false;
  std::vector<char> cleared_;  // of each bucket, whether clear_unused() has dealt with it
};

}  // namespace tutti::detail
