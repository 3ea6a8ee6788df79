// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The backward pass of sharded training: from gradients to this rank's part of their means.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <source_location>
#include <span>
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
#include "tutti/training/bucket_plan.hpp"
#include "tutti/training/buckets_in_flight.hpp"
#include "tutti/training/failure.hpp"
#include "tutti/training/sharded/shard_plan.hpp"
#include "tutti/training/sharded/sharded_gradients.hpp"
#include "tutti/training/sharded/sharded_parameters.hpp"
#include "tutti/training/sharded/sharding_options.hpp"
#include "tutti/training/statistics.hpp"

namespace tutti::detail {

// Functions that begin with expect_ throw bad_argument; the others throw only what reductions throw.
template <class T, class Transport, class Hook>
class sharded_reductions {
 public:
  using clock = buckets_in_flight::clock;

  sharded_reductions(communicator<Transport>& comm, training::bucket_plan const& plan,
                     training::shard_plan const& shards, sharded_parameters<T, Transport>& parameters,
                     std::vector<std::string> names, training::sharding_options const& options, Hook&& some)
      : hook(std::move(some)),
        gradients(comm, plan, shards, options.stage < 2),
        pass(std::move(names), comm.rank()),
        used(pass.number(), 1),
        comm_(comm),
        parameters_(parameters),
        options_(options),
        plan_(plan) {
    pass.begin(plan);
  }

  Hook hook;
  sharded_gradients<T, Transport> gradients;
  backward_pass pass;
  std::vector<std::uint8_t> used;  // by any rank, in any pass since the last step

  void expect_unsent(std::size_t index, std::source_location where) const {
    pass.expect_parameter(index, where);
    if (pass.is_taken(bucket_of(index)))
      refuse(comm_.rank(), "the gradient of " + pass.name(index) + " was asked for after it had been sent",
             "write it before ready(), and read parameters after step()", where);
  }
  // There is memory for options.buffers buckets. If all of it is in use, this waits for the oldest reduction: all ranks start
  // reductions in the same order, so none of them waits for one that will not be started. With `only_if_done` it allocates more
  // instead: where a parameter is unused, another rank starts a reduction only at the end of the pass, and before that may need
  // this rank to gather units.
  std::span<T> of_parameter(std::size_t index, bool only_if_done) {
    if (!gradients.has_memory(bucket_of(index))) {
      while (!gradients.has_room(options_.buffers) && settled_ < in_flight_.started() &&
             (!only_if_done || in_flight_.done(settled_))) {
        in_flight_.wait_for(settled_);
        settle();
      }
      gradients.take(bucket_of(index));
    }
    return gradients.of_parameter(index);
  }

  // Those of stage 1 lie where the gradients of another pass would.
  void expect_no_other_means(std::source_location where) const {
    if (gradients.is_whole() && gradients.passes() > 0)
      refuse(comm_.rank(), "a second backward pass was begun before the step",
             "make all but the last pass within accumulate(), or choose stage 2", where);
  }
  void expect_written(std::size_t index, std::source_location where) const {
    pass.expect_parameter(index, where);
    if (!gradients.has_memory(bucket_of(index)) && !pass.is_taken(bucket_of(index)))
      refuse(comm_.rank(), "the gradient of " + pass.name(index) + " was reported ready, but never asked for",
             "call gradient() in every pass, and write what it returns", where);
    expect_no_other_means(where);
  }
  void report(std::size_t index, training::training_statistics& seen, std::source_location where) {
    pass.report(index, where);
    if (pass.accumulates()) return;
    auto const begin = clock::now();
    while (pass.next_is_full()) start(pass.take_next(), seen, where);
    if (!has_progress_thread(comm_)) in_flight_.drive(1);
    while (settled_ < in_flight_.started() && in_flight_.done(settled_)) settle();
    seen.driven += clock::now() - begin;
  }

  void expect_complete(std::string_view call, std::source_location where) const {
    pass.expect_last(call, where);
    expect_no_other_means(where);
    if (!options_.find_unused) pass.expect_all(call, where);
  }
  // Gradients that nobody reported count as zeros; those that earlier passes have added up are complete. Calls then(bucket) when
  // this rank has the mean of its part, for one bucket after another: the first are dealt with while others are reduced, unless it
  // must first be known which parameters are used.
  template <class Then>
  void end_pass(training::training_statistics& seen, std::source_location where, Then const& then) {
    auto const begin = clock::now();
    while (!pass.all_taken()) {
      for (std::size_t const i : plan_.buckets[pass.taken()].parameters)
        if (pass.used()[i] == 0) std::ranges::fill(of_parameter(i, false), T{});
      start(pass.take_next(), seen, where);
    }
    in_flight_.expect_started();
    if (options_.find_unused) agreement_ = all_reduce(async(comm_), pass.used(), max{}, {}, where);
    in_flight_.wait(agreement_, begin, seen, [&](std::size_t bucket) {
      if (bucket == settled_) settle();
      if (!options_.find_unused) then(bucket);
    });
    in_flight_.count(seen);
    if (gradients.passes() == 0) std::ranges::fill(used, std::uint8_t{0});
    std::ranges::transform(used, pass.used(), used.begin(), std::bit_or<std::uint8_t>());
    if (options_.find_unused)
      for (std::size_t b = 0; b < plan_.buckets.size(); ++b) then(b);
    settled_ = 0;
    gradients.end_pass();
    pass.begin(plan_);
  }

  // Whether a step needs nothing more: a pass has ended, and none has begun since.
  bool has_means() const { return gradients.passes() > 0 && !pass.has_begun(); }

  // Calls f(), which contains calls of all ranks. If it throws on this one alone, the others must not wait for it. They find out by
  // themselves that a rank is gone, and then name it.
  template <class F>
  decltype(auto) end_on_exception(F&& f) {
    try {
      return f();
    } catch (...) {
      if (!reports_loss()) revoke(with_reason("a step of training has failed there"), true);
      abandon();
      throw;
    }
  }
  // The program leaves a step. If it does so by an exception, other ranks may not.
  void leave(bool by_exception) noexcept {
    if (by_exception) revoke("the model that it trains is destroyed in a step", in_flight_.any() || pass.has_reports());
    abandon();
  }

 private:
  // Ends all calls of all ranks for this model.
  void revoke(std::string_view why, bool in_step) noexcept {
    parameters_.revoke(why);
    if (in_step) revoke_quietly(comm_, why);
  }
  // Waits until nothing is in flight, whether or not it succeeds. The pass is lost.
  void abandon() noexcept {
    in_flight_.abandon();
    wait_quietly(agreement_);
    gradients.abandon();
    settled_ = 0;
    pass.begin(plan_);
    parameters_.abandon();
  }
  std::size_t bucket_of(std::size_t parameter) const { return plan_.places[parameter].bucket; }
  void start(std::size_t bucket, training::training_statistics& seen, std::source_location where) {
    auto const some = gradients.to_reduce(bucket, where);
    seen.message_bytes += training::message_bytes(hook, some);
    in_flight_.start(bucket, [&] { return hook(some, comm_); });
  }
  // The oldest reduction that was not settled has ended.
  void settle() { gradients.settle(settled_++); }

  communicator<Transport>& comm_;
  sharded_parameters<T, Transport>& parameters_;
  training::sharding_options const& options_;
  training::bucket_plan const& plan_;
  buckets_in_flight in_flight_;
  work agreement_;           // on the parameters that are used
  std::size_t settled_ = 0;  // reductions of this pass whose memory was given back
};

}  // namespace tutti::detail
