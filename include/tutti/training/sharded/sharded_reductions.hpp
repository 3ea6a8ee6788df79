// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The backward pass of sharded training: from gradients to this rank's part of their means.
#pragma once

#include <chrono>
#include <cstddef>
#include <source_location>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tutti/call/communicator.hpp"
#include "tutti/started/work.hpp"
#include "tutti/training/backward_pass.hpp"
#include "tutti/training/bucket.hpp"
#include "tutti/training/bucket_plan.hpp"
#include "tutti/training/buckets_in_flight.hpp"
#include "tutti/training/sharded/shard_plan.hpp"
#include "tutti/training/sharded/sharded_gradients.hpp"
#include "tutti/training/statistics.hpp"

namespace tutti::detail {

// Functions that begin with expect_ throw bad_argument; the others throw only what reductions throw.
template <class T, class Transport, class Hook>
class sharded_reductions {
 public:
  using clock = buckets_in_flight::clock;

  sharded_reductions(communicator<Transport>& comm, training::bucket_plan const& plan,
                     training::shard_plan const& shards, std::vector<std::string> names, bool whole, Hook&& some)
      : hook(std::move(some)),
        gradients(comm, plan, shards, whole),
        pass(std::move(names), comm.rank()),
        comm_(comm),
        plan_(plan) {
    pass.begin(plan);
  }

  Hook hook;
  sharded_gradients<T, Transport> gradients;
  backward_pass pass;

  void expect_unsent(std::size_t index, std::source_location where) const {
    pass.expect_parameter(index, where);
    if (pass.is_taken(bucket_of(index)))
      refuse(comm_.rank(), "the gradient of " + pass.name(index) + " was asked for after it had been sent",
             "write it before ready(), and read parameters after step()", where);
  }
  // There is memory for so many buckets. If all of it is in use, this waits for the oldest reduction: all ranks start
  // reductions in the same order, so none of them waits for one that will not be started.
  std::span<T> of_parameter(std::size_t index, std::size_t buffers) {
    if (!gradients.has_memory(bucket_of(index))) {
      while (!gradients.has_room(buffers) && settled_ < in_flight_.started()) {
        in_flight_.wait_for(settled_);
        settle();
      }
      gradients.take(bucket_of(index));
    }
    return gradients.of_parameter(index);
  }

  void expect_written(std::size_t index, std::source_location where) const {
    pass.expect_parameter(index, where);
    if (!gradients.has_memory(bucket_of(index)) && !pass.is_taken(bucket_of(index)))
      refuse(comm_.rank(), "the gradient of " + pass.name(index) + " was reported ready, but never asked for",
             "call gradient() in every pass, and write what it returns", where);
    if (gradients.is_whole() && gradients.passes() > 0)
      refuse(comm_.rank(), "a second backward pass was begun before the step",
             "make all but the last pass within accumulate(), or choose stage 2", where);
  }
  void report(std::size_t index, training::training_statistics& seen, std::source_location where) {
    pass.report(index, where);
    if (pass.accumulates()) return;
    auto const begin = clock::now();
    while (pass.next_is_full()) start(pass.take_next(), seen);
    in_flight_.drive(1);
    while (settled_ < in_flight_.started() && in_flight_.done(settled_)) settle();
    seen.driven += clock::now() - begin;
  }

  void expect_complete(std::source_location where) const {
    pass.expect_last(where);
    pass.expect_all(where, "call ready() for each; one that takes no part in a step has a gradient of zeros");
  }
  // Calls then(bucket) when this rank has the mean of its part, for one bucket after another: the first are dealt with
  // while others are reduced.
  template <class Then>
  void end_pass(training::training_statistics& seen, Then const& then) {
    auto const begin = clock::now();
    while (!pass.all_taken()) start(pass.take_next(), seen);  // those that only accumulated passes have reported
    in_flight_.expect_started();
    work nothing_else;
    in_flight_.wait(nothing_else, begin, seen, [&](std::size_t bucket) {
      if (bucket == settled_) settle();
      then(bucket);
    });
    in_flight_.count(seen);
    settled_ = 0;
    gradients.end_pass();
    pass.begin(plan_);
  }

  bool has_begun() const { return in_flight_.any() || pass.has_reports(); }
  // Whether a step needs nothing more: a pass has ended, and none has begun since.
  bool has_means() const { return gradients.passes() > 0 && !pass.has_begun(); }
  // Waits until nothing is in flight, whether or not it succeeds. The pass is lost.
  void abandon() {
    in_flight_.abandon();
    gradients.abandon();
    settled_ = 0;
    pass.begin(plan_);
  }

 private:
  std::size_t bucket_of(std::size_t parameter) const { return plan_.places[parameter].bucket; }
  void start(std::size_t bucket, training::training_statistics& seen) {
    auto const some = gradients.to_reduce(bucket);
    seen.message_bytes += training::message_bytes(hook, some);
    in_flight_.start(bucket, [&] { return hook(some, comm_); });
  }
  // The oldest reduction that was not settled has ended.
  void settle() { gradients.settle(settled_++); }

  communicator<Transport>& comm_;
  training::bucket_plan const& plan_;
  buckets_in_flight in_flight_;
  std::size_t settled_ = 0;  // reductions of this pass whose memory was given back
};

}  // namespace tutti::detail
