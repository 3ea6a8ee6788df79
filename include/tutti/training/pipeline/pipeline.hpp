// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// pipeline: trains a model whose stages are on different ranks.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <numeric>
#include <optional>
#include <source_location>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "tutti/call/communicator.hpp"
#include "tutti/collective/all_reduce.hpp"
#include "tutti/core/error.hpp"
#include "tutti/core/text.hpp"
#include "tutti/reduce/ops.hpp"
#include "tutti/started/asynchronous.hpp"
#include "tutti/started/progress.hpp"
#include "tutti/started/work.hpp"
#include "tutti/training/failure.hpp"
#include "tutti/training/peer_array.hpp"
#include "tutti/training/pipeline/pipeline_messages.hpp"
#include "tutti/training/pipeline/pipeline_options.hpp"
#include "tutti/training/pipeline/pipeline_stage.hpp"
#include "tutti/training/pipeline/stage_layout.hpp"
#include "tutti/training/same_parameters.hpp"
#include "tutti/training/schedule/dynamic.hpp"
#include "tutti/training/schedule/verify.hpp"

namespace tutti::training {

// Trains a model that is divided into stages, each on one rank. A batch is divided into microbatches, which follow each
// other through the stages, forward and backward, in the order of a schedule: gpipe, one_forward_one_backward,
// interleaved{.stages_per_rank = 2}, or one of your own. Activations and gradients travel as messages, while other
// microbatches are computed.
//
//   tutti::training::pipeline line(comm, tutti::training::one_forward_one_backward{},
//                                  tutti::training::activations<float>{{rows * width}}, {.microbatches = 8});
//   double const loss = line.run(
//       [&](auto& pass) { return layers.forward(pass.in, pass.out); },  // what the backward pass needs
//       [&](auto const& pass, auto saved) { layers.backward(saved, pass.in, pass.out_gradient, pass.in_gradient); });
//
// The functions get a stage_forward<T>& and a stage_backward<T> const&. What forward returns is kept for backward; there
// are at most schedule.live(shape, rank) such values at a time. With `recompute` it is dropped, and the forward pass runs a
// second time before the backward pass, unless that follows at once.
//
// One thread makes all calls. During run() and evaluate(), the program uses this communicator for nothing else; messages of
// its own from before must have been received.
//
// Bits      a microbatch is computed as on one process, and the schedules of the library run the backward passes of a
//           stage in the order of the microbatches. So losses and gradients are the same as of one process that takes
//           the microbatches in turn.
// Memory    on rank r, live(shape, r) inputs of stages; `prefetch` buffers of what arrives; what is on its way
// Errors    if a function throws on one rank, that rank gets its exception, and the others `revoked`, which names rank,
//           pass, microbatch and stage. If some ranks call run() and others evaluate(), they get `mismatch`, or
//           `revoked` if another rank has noticed first; both name a rank of each side. If a rank is lost, the others get
//           an error that names it. After an error destroy this object, and make a new one on the communicator that
//           shrink() returns. A call returns on a rank only after all ranks have completed it.
// Cost      besides the messages, two small all_reduces per batch
template <element T, transport Transport>
class pipeline {
 public:
  // Collective. The communicator must outlive this object, and must be neither moved nor assigned to until then.
  // Throws error: bad_argument for sizes or options that do not fit, or for a schedule that verify_pipeline finds wrong;
  // mismatch if ranks have different schedules, microbatches or sizes.
  pipeline(communicator<Transport>& comm, dynamic_pipeline_schedule schedule, activations<T> sizes,
           pipeline_options const& options = {}, std::source_location where = std::source_location::current())
      : comm_(comm),
        options_(options),
        layout_(std::move(schedule), options, std::move(sizes.elements), comm.rank(), comm.size(), where),
        messages_(comm, static_cast<int>(layout_.local_stages().size()), options.microbatches) {
    tutti::detail::expect_same_lines(comm, layout_.lines(), where,
                                     "pass the same schedule, sizes and options on every rank");
    if (options.progress_thread) driver_.emplace();
  }
  pipeline(pipeline const&) = delete;
  pipeline& operator=(pipeline const&) = delete;

  // The number of stages of the model, and those of this rank.
  int stages() const noexcept { return layout_.stages(); }
  std::vector<int> const& local_stages() const noexcept { return layout_.local_stages(); }

  // Takes a batch forward and backward through all stages. Collective. Returns the sum of the losses of all microbatches, on
  // all ranks the same. Gradients of parameters are left to `backward`, which adds them up.
  template <class Forward, class Backward>
  double run(Forward&& forward, Backward&& backward, std::source_location where = std::source_location::current()) {
    if constexpr (tutti::detail::accepts_stage<Forward, Backward, T>()) {
      auto const begin = clock::now();
      std::size_t const sent_before = messages_.bytes_sent();
      double const loss = in_batch(kind::run, where, [&] { pass_all<true>(forward, backward, where); });
      statistics_.elapsed += clock::now() - begin;
      statistics_.computing += computing_;
      statistics_.bytes += messages_.bytes_sent() - sent_before;
      ++statistics_.batches;
      return loss;
    } else {
      return 0;
    }
  }

  // Takes a batch forward through all stages, for its loss, or for what the last stage computes. Collective. Otherwise as
  // run(). It keeps no activation, but up to one for each microbatch may be on its way.
  template <class Forward>
  double evaluate(Forward&& forward, std::source_location where = std::source_location::current()) {
    if constexpr (tutti::detail::accepts_forward<Forward, T>()) {
      return in_batch(kind::evaluate, where, [&] { pass_all<false>(forward, nothing{}, where); });
    } else {
      return 0;
    }
  }

  pipeline_statistics const& statistics() const noexcept { return statistics_; }

 private:
  using clock = std::chrono::steady_clock;
  using buffer = tutti::detail::peer_array<T, Transport>;
  struct nothing {};
  enum class kind { run, evaluate };

  // What is kept of a forward pass for its backward pass.
  template <class Saved>
  struct kept {
    buffer in{};
    std::optional<Saved> saved{};
  };

  // Calls f(), which computes the losses of microbatches that end on this rank, and adds those of all ranks.
  template <class F>
  double in_batch(kind mine, std::source_location where, F&& f) {
    try {
      losses_.assign(static_cast<std::size_t>(layout_.microbatches()), 0);
      computing_ = {};
      begin_to_compare(mine, where);
      f();
      comparison_.wait();
      std::array loss{std::accumulate(losses_.begin(), losses_.end(), 0.0)};
      all_reduce(comm_, loss, sum{}, {}, where);  // after it, no other rank can fail in this batch
      return loss[0];
    } catch (error const&) {
      end_batch();
      if (!difference_.empty()) throw_mismatch(where);
      throw;
    } catch (...) {
      end_batch();
      throw;
    }
  }
  void end_batch() {
    tutti::detail::revoke_quietly(comm_, tutti::detail::with_reason("a batch of a pipeline has failed there"));
    messages_.abandon();
    tutti::detail::wait_quietly(comparison_);
  }
  // Ranks that run a batch wait for gradients, which those that evaluate it do not send. So ranks compare their calls while they
  // compute, and the one that finds a difference ends the messages for which it may be waiting.
  void begin_to_compare(kind mine, std::source_location where) {
    difference_.clear();
    int const nobody = comm_.size();
    first_ = {nobody, nobody};
    first_[static_cast<std::size_t>(mine)] = comm_.rank();
    comparison_ = all_reduce(async(comm_), first_, min{}, {}, where).then([this, nobody] {
      auto const [runs, evaluates] = first_;
      if (runs == nobody || evaluates == nobody) return;
      difference_ = tutti::detail::join(
          {"rank ", runs, " has called run(), but rank ", evaluates, " has called evaluate() of the same pipeline"});
      tutti::detail::revoke_quietly(comm_, difference_);
    });
  }
  [[noreturn, gnu::cold]] void throw_mismatch(std::source_location where) const {
    throw error({.code = error_code::mismatch,
                 .rank = comm_.rank(),
                 .what = difference_,
                 .way_out = "call the same function on all ranks of the pipeline",
                 .where = where});
  }

  template <bool Trains, class Forward, class Backward>
  void pass_all(Forward& forward, Backward&& backward, std::source_location where) {
    std::vector<int> const& mine = layout_.local_stages();
    std::vector<kept<tutti::detail::saved_by_stage<Forward, T>>> live(mine.size() * losses_.size());
    std::vector<int> left(mine.size(), layout_.microbatches());  // backward passes of each stage
    for (int i = 0, next = 0; i < layout_.steps(); ++i) {
      for (; next < layout_.steps() && next - i <= options_.prefetch; ++next)
        if (auto const to = layout_.at(next); Trains || to.pass == pipeline_pass::forward) start_receive(to, where);
      auto const action = layout_.at(i);
      auto& its = live[layout_.index_of(action)];
      if (action.pass == pipeline_pass::forward) {
        pipeline_action const back{pipeline_pass::backward, action.stage, action.microbatch};
        bool const keeps = !options_.recompute || layout_.at(i + 1) == back;
        pass_forward(forward, action, its, where);
        if (!Trains) messages_.pool().give(std::exchange(its.in, {}));
        if (!Trains || !keeps) its.saved.reset();
      } else if constexpr (Trains) {
        bool const last = --left[layout_.place_of(action.stage)] == 0;
        pass_backward(forward, backward, action, its, last, where);
      }
      messages_.drive();
    }
    messages_.wait_for_sends();
  }

  template <class Forward, class Saved>
  void pass_forward(Forward& forward, pipeline_action const& action, kept<Saved>& its, std::source_location where) {
    its.in = messages_.take(layout_.local(action));
    buffer out = messages_.pool().take(layout_.size_after(action.stage));
    compute_forward(forward, action, its, out, false);
    deliver(action, std::move(out), where);
  }
  template <class Forward, class Backward, class Saved>
  void pass_backward(Forward& forward, Backward& backward, pipeline_action const& action, kept<Saved>& its, bool last,
                     std::source_location where) {
    if (!its.saved) {  // before the gradient is waited for, which may be on its way
      buffer out = messages_.pool().take(layout_.size_after(action.stage));
      compute_forward(forward, {pipeline_pass::forward, action.stage, action.microbatch}, its, out, true);
      messages_.pool().give(std::move(out));
    }
    buffer out_gradient = messages_.take(layout_.local(action)),
           in_gradient = messages_.pool().take(layout_.size_before(action.stage));
    stage_backward<T> const pass{.stage = action.stage,
                                 .microbatch = action.microbatch,
                                 .in = its.in.all(),
                                 .out_gradient = out_gradient.all(),
                                 .in_gradient = in_gradient.all(),
                                 .last = last};
    compute(action, [&] {
      if constexpr (std::is_void_v<tutti::detail::returned_by_stage<Forward, T>>) backward(pass);
      else backward(pass, *std::move(its.saved));
    });
    its.saved.reset();
    messages_.pool().give(std::exchange(its.in, {}));
    messages_.pool().give(std::move(out_gradient));
    deliver(action, std::move(in_gradient), where);
  }

  template <class Forward, class Saved>
  void compute_forward(Forward& forward, pipeline_action const& action, kept<Saved>& its, buffer& out, bool again) {
    stage_forward<T> pass{
        .stage = action.stage, .microbatch = action.microbatch, .in = its.in.all(), .out = out.all(), .again = again};
    compute(action, [&] {
      if constexpr (std::is_void_v<tutti::detail::returned_by_stage<Forward, T>>) forward(pass), its.saved.emplace();
      else its.saved.emplace(forward(pass));
    });
    if (!again && layout_.is_last(action.stage)) losses_[static_cast<std::size_t>(action.microbatch)] = pass.loss;
  }
  // Calls f(), and tells the other ranks if it throws.
  template <class F>
  void compute(pipeline_action const& action, F&& f) {
    auto const begin = clock::now();
    try {
      f();
    } catch (...) {
      tutti::detail::revoke_quietly(comm_,
                                    tutti::detail::with_reason(tutti::detail::describe_pass(action) + " failed"));
      throw;
    }
    computing_ += clock::now() - begin;
  }

  // Passes the result of a pass on to the stage that needs it.
  void deliver(pipeline_action const& from, buffer&& result, std::source_location where) {
    pipeline_action const to{from.pass, tutti::detail::stage_after(from), from.microbatch};
    if (!layout_.exists(to.stage)) return;
    int const rank = layout_.rank_of(to.stage);
    if (rank == comm_.rank()) messages_.keep(layout_.local(to), std::move(result));
    else messages_.send(std::move(result), rank, layout_.tag_of(to), where);
  }
  void start_receive(pipeline_action const& to, std::source_location where) {
    int const stage = tutti::detail::stage_before(to);
    if (!layout_.exists(stage)) return;
    if (int const rank = layout_.rank_of(stage); rank != comm_.rank())
      messages_.receive(layout_.local(to), layout_.size_of_need(to), rank, layout_.tag_of(to), where);
  }

  communicator<Transport>& comm_;
  pipeline_options options_;
  tutti::detail::stage_layout layout_;
  tutti::detail::pipeline_messages<T, Transport> messages_;
  std::vector<double> losses_;            // of the microbatches that end on this rank
  std::chrono::nanoseconds computing_{};  // in this batch
  std::array<int, 2> first_{};            // the first rank that calls run(), and the first that calls evaluate()
  std::string difference_;                // found in this batch
  work comparison_;
  pipeline_statistics statistics_{};
  std::optional<tutti::progress_thread> driver_;
};

}  // namespace tutti::training
