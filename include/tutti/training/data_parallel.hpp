// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// data_parallel: averages the gradients of a model over ranks while the backward pass still computes others.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <numeric>
#include <optional>
#include <ranges>
#include <source_location>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tutti/call/communicator.hpp"
#include "tutti/collective/all_reduce.hpp"
#include "tutti/collective/broadcast.hpp"
#include "tutti/core/unwinding.hpp"
#include "tutti/reduce/ops.hpp"
#include "tutti/started/progress.hpp"
#include "tutti/training/accumulation.hpp"
#include "tutti/training/bucket.hpp"
#include "tutti/training/bucket_plan.hpp"
#include "tutti/training/bucket_reductions.hpp"
#include "tutti/training/bucket_search.hpp"
#include "tutti/training/gradient_array.hpp"
#include "tutti/training/moved_gradients.hpp"
#include "tutti/training/options.hpp"
#include "tutti/training/parameter.hpp"
#include "tutti/training/same_parameters.hpp"
#include "tutti/training/statistics.hpp"

namespace tutti::training {

// Trains one model on all ranks: every rank computes gradients of its own share of the data, and all get their mean.
// Gradients lie in buckets (bucket_plan); a bucket is reduced as soon as all its gradients are ready, on every rank in
// the same order (bucket_turns), while the backward pass computes the others.
//
//   tutti::training::data_parallel model(comm, parameters);  // arrays, or training::parameter with names and shapes
//   for (auto const& batch : batches) {
//     for (std::size_t layer = parameters.size(); layer-- > 0;) {
//       backward(layer, batch, model.gradient(layer));       // writes the gradient
//       model.ready(layer);
//     }
//     model.finish();                                        // model.gradient(layer) is the mean from here on
//     step(parameters, model);
//   }
//
// Instead of waiting for all gradients, a program can begin the next forward pass, which needs those of the first layers first:
//
//     for (std::size_t layer = 0; layer < parameters.size(); ++layer) {
//       model.wait(layer);                                     // model.gradient(layer) is the mean from here on
//       step(parameters[layer], model.gradient(layer));
//       forward(layer, next_batch);                            // while gradients of later layers are reduced
//     }
//     model.finish();
//
// One thread makes all calls. Between the first ready() and the end of finish(), the program makes no other calls on
// this communicator; give the model one of its own if it has to: auto own = comm.split(0).value().
//
// Bits      all ranks get the same. They depend on the buckets, hence on bucket_sizes, but not on the order in which buckets are
//           reduced. They differ between the first step and later ones if the buckets are rebuilt. Where rank 0 may report
//           gradients in another order in another run, set rebuild = false to get the same bits again. With adapt, times
//           decide on the buckets; the bits stay the same if the hook adds in rank order, whatever the buckets, as
//           average{{.algorithm = algorithm_id::two_shot}} does.
// Errors    misuse throws bad_argument on the rank that commits it, before anything else happens there. If a rank is
//           lost, wait() or finish() throws on the others, as any collective does. If a step fails on one rank alone, because
//           the hook has thrown there for example, they throw that there, and `revoked` on the others. Afterwards destroy
//           this object, and make a new one on the communicator that shrink() returns.
template <element T, transport Transport, bucket_hook<T, Transport> Hook = average>
class data_parallel {
 public:
  // Collective. Reads and writes the parameters only here. The communicator must outlive this object, and must be neither
  // moved nor assigned to until then.
  // Throws error: mismatch, which names rank, parameter and both shapes, if ranks have different parameters; bad_argument if two
  // parameters share memory.
  template <tutti::detail::parameter_list List>
  data_parallel(communicator<Transport>& comm, List&& parameters, data_parallel_options const& options = {},
                Hook hook = {}, std::source_location where = std::source_location::current())
      : data_parallel(comm, tutti::detail::parameters_of(parameters), options, std::move(hook), where, from_list{}) {}
  data_parallel(data_parallel const&) = delete;
  data_parallel& operator=(data_parallel const&) = delete;
  // Waits for the reductions in flight, because they use memory of this object. During an exception it revokes the
  // communicator first, because other ranks may have left the step, too; by priority it does so in every step that finish() has
  // not ended, because ranks may have begun different buckets.
  ~data_parallel() { reductions_.leave(unwinding_.begun()); }

  // The number of parameters, and of all their elements.
  std::size_t size() const noexcept { return gradients_.size(); }
  std::size_t elements() const noexcept {
    return std::transform_reduce(shapes_.begin(), shapes_.end(), std::size_t{0}, std::plus{},
                                 [](auto const& shape) { return tutti::detail::elements_of_shape(shape); });
  }

  // The gradient of a parameter: write it before ready(), read the mean after wait() or finish(). Ask for it in every step,
  // because finish() moves gradients when it rebuilds the buckets, at the end of the first step. What was asked for in that step
  // may still be read, for the mean, until zero() or the next finish().
  std::span<T> gradient(std::size_t parameter, std::source_location where = std::source_location::current()) {
    reductions_.pass.expect_parameter(parameter, where);
    return gradients_.of_parameter(parameter);
  }
  // Sets all gradients to zero, for backward passes that add to them. Not between ready() and finish().
  void zero(std::source_location where = std::source_location::current()) {
    reductions_.pass.expect_no_reports("zero()", where);
    std::ranges::fill(gradients_.all(), T{});
    moved_.zero();
  }

  // The gradient of this parameter is complete; it must not be touched until wait() for it or finish() has returned. Starts the
  // reduction of buckets that are full, and drives those in flight. Throws bad_argument if there is no such parameter,
  // if it was reported in this pass before, or if its gradient was written to where it was before it moved.
  void ready(std::size_t parameter, std::source_location where = std::source_location::current()) {
    reductions_.pass.expect_parameter(parameter, where);
    moved_.expect_unchanged(parameter, comm_.rank(), where);
    reductions_.report(parameter, where);
  }

  // Waits until the gradient of this parameter is averaged; others may still be on their way. The first call in a step ends the
  // backward pass; the step ends with finish(), which must be called before the next ready(). Ranks may wait for different
  // parameters, or for none. With by_priority, buckets are reduced in the order in which a forward pass needs them that uses the
  // parameters in the order of their list; the fewer parameters share a bucket, the sooner wait() returns. With find_unused,
  // it also waits until all ranks know which parameters are used; without by_priority, this is known last. A hook of
  // two rounds (power_sgd) makes the first call wait for the first rounds of all buckets.
  //
  // Throws what finish() throws.
  void wait(std::size_t parameter, std::source_location where = std::source_location::current()) {
    reductions_.pass.expect_parameter(parameter, where);
    reductions_.expect_complete("wait()", where);
    reductions_.end_on_exception([&] { reductions_.wait(parameter, where); });
  }

  // The end of the step. Collective. Waits until all gradients are averaged.
  //
  // With find_unused, a parameter that no ready() named on this rank contributes zeros, and one that no rank used has
  // a gradient of zero: see used(). Otherwise a missing one throws bad_argument, with the names of all that are missing,
  // and the pass can be continued. Throws what the reductions throw.
  void finish(std::source_location where = std::source_location::current()) {
    reductions_.expect_complete("finish()", where);
    reductions_.end_on_exception([&] {
      reductions_.wait_for_all(where);
      moved_.end_step();
      if (options_.rebuild && std::exchange(first_step_, false)) rebuild(where);
      if (search_) adapt(where);
    });
    reductions_.begin();
  }

  // Whether some gradients may not be means yet: from the first ready() of a step to the end of finish().
  bool in_pass() const { return reductions_.pass.has_begun() || reductions_.pass.has_ended(); }

  // After wait() or finish(): whether any rank used this parameter in the step. An optimiser with momentum or weight decay should
  // leave the others alone.
  bool used(std::size_t parameter, std::source_location where = std::source_location::current()) const {
    reductions_.pass.expect_parameter(parameter, where);
    return reductions_.used[parameter] != 0;
  }

  // While the returned object exists, ready() only notes that a parameter is used, and nothing is sent: several
  // backward passes add their gradients up. The pass after its end, and finish(), reduce the sums. Call zero() first.
  //
  //   {
  //     auto const local = model.accumulate();
  //     for (auto const& part : all_but_the_last) add_gradients(part, model);
  //   }
  //   add_gradients(last, model);
  //   model.finish();
  [[nodiscard]] accumulation accumulate(std::source_location where = std::source_location::current()) {
    return accumulation(reductions_.pass, where);
  }

  training_statistics const& statistics() const noexcept { return reductions_.statistics; }
  bucket_plan const& plan() const noexcept { return gradients_.plan(); }
  // The hook, whose state a checkpoint may need. Not between the first ready() and the end of finish().
  Hook& hook() noexcept { return reductions_.hook; }

 private:
  using gradient_array = tutti::detail::gradient_array<T, Transport>;
  using moved_gradients = tutti::detail::moved_gradients<T, Transport>;
  struct from_list {};

  data_parallel(communicator<Transport>& comm, std::vector<parameter<T>> const& parameters,
                data_parallel_options const& options, Hook&& hook, std::source_location where, from_list)
      : comm_(comm),
        options_(options),
        shapes_(tutti::detail::parameter_shapes(parameters)),
        reductions_(comm, gradients_, tutti::detail::parameter_names(parameters), std::move(hook)) {
    tutti::detail::expect_valid(options, comm.rank(), where);
    tutti::detail::expect_apart(parameters, comm.rank(), where);
    agree(parameters, where);
    reductions_.open(options, where);
    if (options.adapt) {
      search_.emplace(*options.adapt, options.buckets.bytes, elements() * sizeof(T));
      for (std::size_t const bytes : search_->sizes()) sizes_.push_back(with_bytes(bytes));
      options_.buckets = sizes_[0];
    }
    lay_out(tutti::detail::last_first(parameters.size()));
    if (options.progress_thread) driver_.emplace();
  }

  // Ranks with other parameters or options would make other calls.
  void agree(std::vector<parameter<T>> const& parameters, std::source_location where) {
    auto lines = tutti::detail::lines_about(std::span(parameters), comm_.rank(), where);
    lines.insert(lines.begin(), tutti::detail::line_about(options_));
    tutti::detail::expect_same_lines(comm_, lines, where, tutti::detail::same_model_and_options);
    if (!options_.broadcast) return;
    for (auto const& p : parameters) tutti::broadcast(comm_, p.values, 0, {}, where);
  }

  void lay_out(std::vector<std::size_t> order) {
    order_ = std::move(order);
    gradients_ = gradient_array(comm_, order_, shapes_, options_.buckets, sizes_);
    reductions_.begin_layout();
  }

  // Collective. Groups the gradients by the order in which they became ready on rank 0.
  void rebuild(std::source_location where) {
    std::vector<std::size_t> order = reductions_.pass.observed_order(order_);
    tutti::broadcast(comm_, order, 0, {}, where);
    if (order == order_) return;
    moved_ = moved_gradients(std::move(gradients_));
    lay_out(std::move(order));
    for (std::size_t i = 0; i < size(); ++i)
      std::ranges::copy(moved_.of_parameter(i), gradients_.of_parameter(i).begin());
  }
  // Collective. Tries another size of buckets if enough steps have been seen with this one.
  void adapt(std::source_location where) {
    auto const before = std::exchange(passes_before_, statistics().passes);
    if (!search_->saw(passes_before_ - before)) return;
    std::int64_t const largest = all_reduce(comm_, std::int64_t{search_->median().count()}, max{}, {}, where);
    search_->judge(std::chrono::nanoseconds(largest));
    if (options_.buckets.bytes == search_->bytes()) return;
    options_.buckets = with_bytes(search_->bytes());
    gradients_.divide(order_, shapes_, options_.buckets, sizes_);
    reductions_.begin_layout();
  }
  bucket_sizes with_bytes(std::size_t bytes) const {
    bucket_sizes out = options_.buckets;
    out.bytes = bytes;
    return out;
  }

  communicator<Transport>& comm_;
  data_parallel_options options_;
  std::vector<std::vector<std::size_t>> shapes_;  // of the parameters
  std::vector<std::size_t> order_;                // of the parameters in the buckets
  gradient_array gradients_;
  moved_gradients moved_;
  tutti::detail::bucket_reductions<T, Transport, Hook> reductions_;
  std::optional<tutti::detail::bucket_search> search_;
  std::vector<bucket_sizes> sizes_;           // that adapt() may choose
  std::chrono::nanoseconds passes_before_{};  // of all steps but the last
  bool first_step_ = true;
  tutti::detail::unwinding unwinding_;
  std::optional<tutti::progress_thread> driver_;
};

template <class Transport, class List, class Hook = average>
data_parallel(communicator<Transport>&, List&&, data_parallel_options const& = {}, Hook = {})
    -> data_parallel<tutti::detail::value_of_parameters<List>, Transport, Hook>;

}  // namespace tutti::training
