// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// sharded_data_parallel: training in which each rank keeps a part of the optimiser's state, the gradients, the parameters.
#pragma once

#include <algorithm>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <optional>
#include <source_location>
#include <span>
#include <utility>
#include <vector>

#include "tutti/call/communicator.hpp"
#include "tutti/collective/all_reduce.hpp"
#include "tutti/core/unwinding.hpp"
#include "tutti/reduce/ops.hpp"
#include "tutti/started/progress.hpp"
#include "tutti/training/accumulation.hpp"
#include "tutti/training/bucket_plan.hpp"
#include "tutti/training/gradient_norm.hpp"
#include "tutti/training/optimizers.hpp"
#include "tutti/training/same_parameters.hpp"
#include "tutti/training/sharded/deferred_model.hpp"
#include "tutti/training/sharded/master.hpp"
#include "tutti/training/sharded/shard_optimizer.hpp"
#include "tutti/training/sharded/shard_plan.hpp"
#include "tutti/training/sharded/sharded_parameters.hpp"
#include "tutti/training/sharded/sharded_reductions.hpp"
#include "tutti/training/sharded/sharding_options.hpp"
#include "tutti/training/sharded/sharding_statistics.hpp"
#include "tutti/training/sharded_bucket.hpp"

namespace tutti::training {

// Trains one model on all ranks, as data_parallel and an optimiser do, in less memory. For n parameters, p ranks and an
// optimiser with k numbers for each parameter, a rank keeps
//
//   stage 1   n parameters, n gradients, k n / p numbers of state                 (ZeRO stage 1)
//   stage 2   n parameters, n / p gradients and two buckets, k n / p              (ZeRO stage 2)
//   stage 3   n / p parameters and two units, n / p gradients and two, k n / p    (ZeRO stage 3, FSDP)
//
// Each rank owns a part of every bucket. It gets the mean of its gradients by reduce_scatter while the backward pass
// computes others, changes its parameters, and gives them to the others by all_gather: in stages 1 and 2 bucket after bucket
// at the end of the step, in stage 3 unit after unit when the program asks for them, and the next ones ahead of that.
// Parameters of half or bfloat16 have masters in float, which the optimiser changes: n / p more numbers in every stage. Gradients
// travel in the type of the parameters; this rank's part of their means is kept in float (n / p numbers in stage 1, too).
// (Rajbhandari et al., "ZeRO: Memory Optimizations Toward Training Trillion Parameter Models", SC 2020; Zhao et al., "PyTorch
// FSDP: Experiences on Scaling Fully Sharded Data Parallel", VLDB 2023.)
//
//   using namespace tutti::training;
//   sharded_data_parallel model(comm, parameters, adam{.rate = 1e-3}, {.stage = 3});
//   for (auto const& batch : batches) {
//     for (std::size_t layer = 0; layer < model.units(); ++layer) {
//       auto const here = model.gather(layer);                // its parameters may be read while `here` exists
//       forward(layer, batch, model.parameter(layer));
//     }
//     for (std::size_t layer = model.units(); layer-- > 0;) {
//       auto const here = model.gather(layer);
//       backward(layer, batch, model.parameter(layer), model.gradient(layer));
//       model.ready(layer);
//     }
//     model.step();
//   }
//
// One thread makes all calls. Between the first ready() and the end of step(), the program makes no other calls on this
// communicator. Gathers of stage 3 use one of their own; all ranks gather the same units in the same order, and release them in
// the same order among these gathers, because a unit that is still held is not gathered again.
//
// Bits      an element's mean is that of its contributions in rank order, whatever the stage, buckets and units, so all of them give
//           the same parameters; those of data_parallel with the same optimiser and average{{.algorithm = algorithm_id::two_shot}}
// Cost      p ranks, parameters and gradients of b bytes: every rank sends b (p-1)/p bytes of gradients and as many of
//           parameters in a step; in stage 3 twice as many of parameters, and an all_reduce of 16 bytes
// Errors    as data_parallel. After an error of a collective, parameters and state may be those of before or after the step,
//           and a lost rank's part is lost: continue from a checkpoint
template <shardable T, transport Transport, optimizer_rule<master_of<T>> Rule,
          sharded_bucket_hook<T, Transport> Hook = average_shards>
class sharded_data_parallel {
 public:
  // Collective. Takes the parameters of rank 0, and reads the arrays only here, so the program may free them. The
  // communicator must outlive this object, and must be neither moved nor assigned to until then.
  // Throws error: mismatch, which names rank, parameter and both shapes, if ranks have different parameters or options;
  // bad_argument for options or constants of the rule that are impossible, and for arrays that share memory.
  template <tutti::detail::parameter_list List>
  sharded_data_parallel(communicator<Transport>& comm, List&& parameters, Rule rule,
                        sharding_options const& options = {}, Hook hook = {},
                        std::source_location where = std::source_location::current())
      : sharded_data_parallel(comm,
                              tutti::detail::source_of(tutti::detail::parameters_of(parameters), comm.rank(), where),
                              std::move(rule), options, std::move(hook), where) {}
  // The same for parameters whose values need not exist yet, so that no rank must hold more than a stage promises. Rank 0 writes them
  // when they are needed, and throws what model.fill throws; the others then get `revoked`, which quotes it. Reads `model` only here.
  sharded_data_parallel(communicator<Transport>& comm, deferred_model<T> const& model, Rule rule,
                        sharding_options const& options = {}, Hook hook = {},
                        std::source_location where = std::source_location::current())
      : sharded_data_parallel(comm, tutti::detail::source_of(model, comm.rank(), where), std::move(rule), options,
                              std::move(hook), where) {}
  sharded_data_parallel(sharded_data_parallel const&) = delete;
  sharded_data_parallel& operator=(sharded_data_parallel const&) = delete;
  // As that of data_parallel.
  ~sharded_data_parallel() { reductions_.leave(unwinding_.begun()); }

  // The number of parameters, and of units.
  std::size_t size() const noexcept { return plan_.places.size(); }
  std::size_t units() const noexcept { return parameters_.units(); }

  // Keeps a unit gathered.
  using gathered_unit = tutti::detail::gathered_unit<T, Transport>;
  // Collective in stage 3; otherwise it does nothing. Waits until the parameters of the unit are here, where they are until
  // what it returns is destroyed. From the second step on, which units follow is known, and options.prefetch of them are
  // gathered meanwhile. Throws what the gathers throw.
  [[nodiscard]] gathered_unit gather(std::size_t unit, std::source_location where = std::source_location::current()) {
    parameters_.expect_unit(unit, where);
    reductions_.end_on_exception([&] { parameters_.gather(unit, options_.prefetch, statistics_, where); });
    return gathered_unit(parameters_, unit);
  }

  // A parameter, which only step() changes. In stage 3, until its unit is released. Throws bad_argument if it is not
  // gathered.
  std::span<T const> parameter(std::size_t index, std::source_location where = std::source_location::current()) {
    reductions_.pass.expect_parameter(index, where);
    return parameters_.of_parameter(index, reductions_.pass.name(index), where);
  }

  // Where to write the gradient of a parameter. In stages 2 and 3 this is memory that buckets use in turn: ask for it in
  // every pass. It contains nothing of use before it is written, except after zero(). If options.buffers are in use, this
  // waits for the reduction of one, and throws what that throws; bad_argument if this pass has sent it already, or in stage 1
  // between finish() and step().
  std::span<T> gradient(std::size_t index, std::source_location where = std::source_location::current()) {
    reductions_.expect_unsent(index, where);
    reductions_.expect_no_other_means(where);
    return reductions_.end_on_exception(
        [&] { return reductions_.of_parameter(index, options_.find_unused && options_.stage == 3); });
  }
  // Sets all gradients of the coming pass to zero, for backward passes that add to them. Not between ready() and the end of
  // the pass; in stage 1, where means lie in the same memory, not before the end of the step.
  void zero(std::source_location where = std::source_location::current()) {
    reductions_.pass.expect_no_reports("zero()", where);
    reductions_.expect_no_other_means(where);
    reductions_.gradients.zero();
  }

  // The gradient of this parameter is complete, and must not be touched any more. Starts the reduction of buckets that are
  // full, and drives those in flight. Throws bad_argument as data_parallel::ready().
  void ready(std::size_t index, std::source_location where = std::source_location::current()) {
    reductions_.expect_written(index, where);
    reductions_.report(index, statistics_, where);
  }

  // The end of a backward pass. Collective. Waits until this rank has the means of its gradients. In stages 2 and 3 several
  // passes may precede a step, and their means add up. Not needed before step() if there is only one pass. With find_unused, a
  // parameter that no ready() named on this rank contributes zeros, and step() leaves alone what no rank has used; otherwise a
  // missing one throws bad_argument.
  void finish(std::source_location where = std::source_location::current()) {
    reductions_.expect_complete("finish()", where);
    reductions_.end_on_exception([&] { reductions_.end_pass(statistics_, where, [](std::size_t) {}); });
  }

  // Whether some gradients may not be means yet: from the first ready() of a pass to its end.
  bool in_pass() const { return reductions_.pass.has_begun(); }
  // After finish(): whether any rank has used this parameter since the last step(); after step(), in that step.
  bool used(std::size_t index, std::source_location where = std::source_location::current()) const {
    reductions_.pass.expect_parameter(index, where);
    return reductions_.used[index] != 0;
  }

  // After finish(): the Euclidean norm of all gradients, for clipping. Collective. Squares are added in double, so it is the
  // same on all ranks, but may differ in its last bits between numbers of ranks and plans of buckets. Throws bad_argument
  // during a pass.
  //
  //   model.finish();
  //   model.step(std::min(1.0, max_norm / (model.gradient_norm() + 1e-6)));
  [[nodiscard]] double gradient_norm(std::source_location where = std::source_location::current()) {
    return std::sqrt(squares_of_gradients([](std::size_t) { return true; }, where));
  }
  // The same where the ranks of a group hold parts of the model, as training::gradient_norm(model, group, counts). Collective among
  // the ranks that share this model, and then among the group.
  //
  //   model.step(std::min(1.0, max_norm / (model.gradient_norm(mesh.along({"tensor", "pipeline"}), counts) + 1e-6)));
  template <transport Other, std::predicate<std::size_t> Counts>
  [[nodiscard]] double gradient_norm(communicator<Other>& group, Counts&& counts,
                                     std::source_location where = std::source_location::current()) {
    double const squares = squares_of_gradients(counts, where);
    return std::sqrt(reductions_.end_on_exception([&] { return all_reduce(group, squares, sum{}, {}, where); }));
  }

  // The end of a step. Collective. Ends the pass if finish() has not, or if others were accumulated since; changes the
  // parameters by their gradients times `scale`; if it is 0, they and the optimiser's state stay as they are. `scale` and the rule's
  // constants must be the same on all ranks. No unit may be gathered. In stage 3, if ranks have not gathered the same units in the
  // same order since the last step, or pass another `scale`, this throws error: mismatch, or revoked on a rank that learns of it from
  // another, and no parameter has changed. Other differences of constants or `scale` go unnoticed.
  void step(double scale = 1, std::source_location where = std::source_location::current()) {
    parameters_.expect_released("step()", where);
    auto const factor = static_cast<master_of<T>>(scale);
    own_.optimizer.expect_step(factor, where);
    bool const has_means = reductions_.has_means();
    if (!has_means) reductions_.expect_complete("step()", where);
    parameters_.forget_gathered();  // once nothing is refused any more
    auto const change_some = [&](std::size_t bucket) { change(bucket, factor, where); };
    reductions_.end_on_exception([&] {
      parameters_.begin_to_compare(factor, where);
      if (!has_means) reductions_.end_pass(statistics_, where, change_some);
      for (std::size_t b = 0; has_means && b < plan_.buckets.size(); ++b) change_some(b);
      if (plan_.buckets.empty() && factor != 0) own_.optimizer.begin_step(where);
      parameters_.finish_sharing(statistics_);
    });
    reductions_.gradients.end_step();
  }

  // As data_parallel::accumulate(). While it exists, nothing is sent, so all gradients have memory, in every stage.
  [[nodiscard]] accumulation accumulate(std::source_location where = std::source_location::current()) {
    return accumulation(reductions_.pass, where);
  }

  // The optimiser, whose state is that of the elements that this rank owns.
  training::optimizer<master_of<T>, Rule>& optimizer() noexcept { return own_.optimizer; }

  // What this rank owns, between two steps: a checkpoint stores it and optimizer().steps(). It may be written, on all ranks;
  // then share() gives them the parameters that others have written. Another number of ranks has other shards. Parameters of half
  // or bfloat16 have their masters here.
  std::vector<shard_part<master_of<T>>> shard() { return own_.parts(); }
  // Collective, between two steps.
  void share(std::source_location where = std::source_location::current()) {
    parameters_.expect_released("share()", where);
    reductions_.pass.expect_no_reports("share()", where);
    parameters_.forget_gathered();
    reductions_.end_on_exception([&] {
      for (std::size_t b = 0; b < plan_.buckets.size(); ++b) parameters_.share(b, statistics_, where);
      parameters_.finish_sharing(statistics_);
    });
  }

  sharding_statistics const& statistics() const noexcept { return statistics_; }
  memory_report memory() const {
    auto const& p = parameters_;
    auto const& g = reductions_.gradients;
    std::size_t const masters = p.master_bytes(), state = own_.optimizer.state_bytes();
    return {{p.bytes(), masters, p.gathered_bytes(), g.bytes(), state},
            {p.bytes(), masters, p.peak_gathered_bytes(), g.peak_bytes(), state}};
  }
  bucket_plan const& plan() const noexcept { return plan_; }
  Hook& hook() noexcept { return reductions_.hook; }

 private:
  sharded_data_parallel(communicator<Transport>& comm, tutti::detail::model_source<T> const& model, Rule&& rule,
                        sharding_options const& options, Hook&& hook, std::source_location where)
      : comm_(comm),
        options_(checked(options, rule, comm.rank(), where)),
        parameters_of_units_(tutti::detail::agree_on_units(comm, model.outline, options, where)),
        plan_(tutti::detail::plan_for(options, model.outline.counts, parameters_of_units_, sizeof(T))),
        shards_(plan_shards(plan_, comm.size(), comm.rank())),
        parameters_(comm, plan_, shards_, parameters_of_units_, options.stage < 3, where),
        reductions_(comm, plan_, shards_, parameters_, model.outline.names, options_, std::move(hook)),
        own_(shards_, parameters_, std::move(rule)) {
    parameters_.load(model, where);
    for (auto const& b : plan_.buckets) statistics_.buckets.push_back({.bytes = b.count * sizeof(T)});
    if (options.progress_thread) driver_.emplace();
  }

  static sharding_options const& checked(sharding_options const& options, Rule const& rule, int rank,
                                         std::source_location where) {
    tutti::detail::check_options(options, rank, where);
    training::optimizer<master_of<T>, Rule>::expect_valid_rule(rule, where);
    return options;
  }
  // Of those parameters for which counts(parameter) is true.
  template <class Counts>
  double squares_of_gradients(Counts const& counts, std::source_location where) {
    tutti::detail::expect_means(*this, "gradient_norm()", where, comm_.rank());
    return reductions_.end_on_exception(
        [&] { return all_reduce(comm_, reductions_.gradients.squares(counts), sum{}, {}, where); });
  }
  // Changes this rank's part of a bucket, but for parameters that no rank has used.
  void change(std::size_t bucket, master_of<T> scale, std::source_location where) {
    if (bucket == 0) parameters_.expect_same(where);
    if (scale != 0 && bucket == 0) own_.optimizer.begin_step(where);
    if (scale != 0) own_.change(bucket, plan_, reductions_.gradients, reductions_.used, scale, where);
    parameters_.share(bucket, statistics_, where);
  }

  communicator<Transport>& comm_;
  sharding_options options_;
  std::vector<std::size_t> parameters_of_units_;
  bucket_plan plan_;
  shard_plan shards_;
  tutti::detail::sharded_parameters<T, Transport> parameters_;
  tutti::detail::sharded_reductions<T, Transport, Hook> reductions_;
  tutti::detail::shard_optimizer<T, Transport, Rule> own_;
  sharding_statistics statistics_{};
  tutti::detail::unwinding unwinding_;
  std::optional<tutti::progress_thread> driver_;
};

template <class Transport, class List, class Rule, class Hook = average_shards>
sharded_data_parallel(communicator<Transport>&, List&&, Rule, sharding_options const& = {}, Hook = {})
    -> sharded_data_parallel<tutti::detail::value_of_parameters<List>, Transport, Rule, Hook>;

}  // namespace tutti::training
