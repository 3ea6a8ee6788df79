// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// data_parallel: averages the gradients of a model over ranks while the backward pass still computes others.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
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
#include "tutti/collective/split.hpp"
#include "tutti/core/text.hpp"
#include "tutti/reduce/ops.hpp"
#include "tutti/started/asynchronous.hpp"
#include "tutti/started/progress.hpp"
#include "tutti/training/backward_pass.hpp"
#include "tutti/training/bucket.hpp"
#include "tutti/training/bucket_plan.hpp"
#include "tutti/training/gradient_array.hpp"
#include "tutti/training/options.hpp"
#include "tutti/training/parameter.hpp"
#include "tutti/training/same_parameters.hpp"
#include "tutti/training/statistics.hpp"

namespace tutti::training {

// Trains one model on all ranks: every rank computes gradients of its own share of the data, and all get their mean.
// Gradients lie in buckets (bucket_plan); a bucket is reduced as soon as all its gradients are ready, on every rank in
// the same order, while the backward pass computes the others.
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
// One thread makes all calls. Between the first ready() and the end of finish(), the program makes no other calls on
// this communicator; give the model one of its own if it has to: auto own = comm.split(0).value().
//
// Bits      all ranks get the same. They depend on the buckets, hence on bucket_sizes, and differ between the first
//           step and later ones if the buckets are rebuilt. Where rank 0 may report gradients in another order in another
//           run, set rebuild = false to get the same bits again.
// Errors    misuse throws bad_argument on the rank that commits it, before anything else happens there. If a rank is
//           lost, finish() throws on the others, as any collective does. If a step fails on one rank alone, because the
//           hook has thrown there for example, finish() throws that there, and `revoked` on the others. Afterwards
//           destroy this object, and make a new one on the communicator that shrink() returns.
template <element T, transport Transport, bucket_hook<T, Transport> Hook = average>
class data_parallel {
 public:
  // Collective. Reads and writes the parameters only here. The communicator must outlive this object, and must be neither
  // moved nor assigned to until then.
  // Throws error: mismatch, which names rank, parameter and both shapes, if ranks have different parameters.
  template <tutti::detail::parameter_list List>
  data_parallel(communicator<Transport>& comm, List&& parameters, data_parallel_options const& options = {},
                Hook hook = {}, std::source_location where = std::source_location::current())
      : data_parallel(comm, tutti::detail::parameters_of(parameters), options, std::move(hook), where, from_list{}) {}
  data_parallel(data_parallel const&) = delete;
  data_parallel& operator=(data_parallel const&) = delete;
  // Waits for the reductions in flight, because they use memory of this object. During an exception it revokes the
  // communicator first, because other ranks may have left the step, too.
  ~data_parallel() {
    bool const in_flight = !std::ranges::all_of(works_, &work::done);
    if (in_flight && std::uncaught_exceptions() > exceptions_)
      revoke("the model that it trains is destroyed in a step");
    abandon();
  }

  // The number of parameters.
  std::size_t size() const noexcept { return gradients_.size(); }

  // The gradient of a parameter: write it before ready(), read the mean after finish(). Ask for it in every step,
  // because finish() moves gradients once, at the end of the first step, when it rebuilds the buckets. What was asked for in
  // the first step may still be read, for the mean, until the second finish().
  std::span<T> gradient(std::size_t parameter, std::source_location where = std::source_location::current()) {
    pass_.expect_parameter(parameter, where);
    return gradients_.of_parameter(parameter);
  }
  // Sets all gradients to zero, for backward passes that add to them. Not between ready() and finish().
  void zero(std::source_location where = std::source_location::current()) {
    if (pass_.has_reports())
      tutti::detail::refuse(comm_.rank(), "zero() was called when gradients had already been reported ready",
                            "call it before the first ready() of a step", where);
    std::ranges::fill(gradients_.all(), T{});
  }

  // The gradient of this parameter is complete; it must not be touched until finish() has returned. Starts the
  // reduction of buckets that are full, and drives those in flight. Throws bad_argument if there is no such parameter,
  // if it was reported in this pass before, or if its gradient was written to where it was before it moved.
  void ready(std::size_t parameter, std::source_location where = std::source_location::current()) {
    pass_.expect_parameter(parameter, where);
    expect_not_stale(parameter, where);
    pass_.report(parameter, where);
    if (pass_.accumulates()) return;
    auto const begin = clock::now();
    while (pass_.next_is_full()) start(pass_.take_next());
    drive();
    statistics_.driven += clock::now() - begin;
  }

  // The end of the backward pass. Collective. Waits until all gradients are averaged.
  //
  // With find_unused, a parameter that no ready() named on this rank contributes zeros, and one that no rank used has
  // a gradient of zero: see used(). Otherwise a missing one throws bad_argument, with the names of all that are missing,
  // and the pass can be continued. Throws what the reductions throw.
  void finish(std::source_location where = std::source_location::current()) {
    pass_.expect_last(where);
    if (!options_.find_unused) pass_.expect_all(where);
    try {
      auto const begin = clock::now();
      start_the_rest();
      if (failed_) std::rethrow_exception(std::exchange(failed_, nullptr));
      if (options_.find_unused) agreement_ = all_reduce(async(comm_), pass_.used(), max{}, {}, where);
      wait_for_all_ranks(begin);
      count_step();
      used_ = pass_.used();
      stale_ = {};
      if (options_.rebuild && std::exchange(first_step_, false)) rebuild(where);
    } catch (...) {
      revoke("a step of training has failed there");
      abandon();
      pass_.begin(plan());
      throw;
    }
    pass_.begin(plan());
  }

  // After finish(): whether any rank used this parameter in the step. An optimiser with momentum or weight decay should
  // leave the others alone.
  bool used(std::size_t parameter, std::source_location where = std::source_location::current()) const {
    pass_.expect_parameter(parameter, where);
    return used_[parameter] != 0;
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
  class accumulation {
   public:
    explicit accumulation(tutti::detail::backward_pass& pass, std::source_location where) : pass_(pass) {
      pass_.begin_accumulation(where);
    }
    accumulation(accumulation const&) = delete;
    accumulation& operator=(accumulation const&) = delete;
    ~accumulation() { pass_.end_accumulation(); }

   private:
    tutti::detail::backward_pass& pass_;
  };
  [[nodiscard]] accumulation accumulate(std::source_location where = std::source_location::current()) {
    return accumulation(pass_, where);
  }

  training_statistics const& statistics() const noexcept { return statistics_; }
  bucket_plan const& plan() const noexcept { return gradients_.plan(); }
  // The hook, whose state a checkpoint may need. Not between the first ready() and the end of finish().
  Hook& hook() noexcept { return hook_; }

 private:
  using clock = std::chrono::steady_clock;
  using gradient_array = tutti::detail::gradient_array<T, Transport>;
  struct from_list {};

  data_parallel(communicator<Transport>& comm, std::vector<parameter<T>> const& parameters,
                data_parallel_options const& options, Hook&& hook, std::source_location where, from_list)
      : comm_(comm), options_(options), hook_(std::move(hook)), pass_(names_of(parameters), comm.rank()) {
    if (options.concurrent < 1)
      tutti::detail::refuse(comm.rank(), "data_parallel_options::concurrent is less than 1",
                            "pass the number of buckets to reduce at the same time", where);
    agree(parameters, where);
    std::vector<std::size_t> order(parameters.size());
    std::iota(order.rbegin(), order.rend(), std::size_t{0});  // the last layer's gradients are ready first
    lay_out(counts_of(parameters), std::move(order));
    used_.assign(size(), 1);
    for (int i = 1; i < options.concurrent; ++i) others_.push_back(comm.split(0, 0, where).value());
    if (options.progress_thread) driver_.emplace();
  }

  static std::vector<std::string> names_of(std::vector<parameter<T>> const& parameters) {
    std::vector<std::string> out;
    for (auto const& p : parameters) out.push_back(tutti::detail::parameter_name(out.size(), p.name));
    return out;
  }
  static std::vector<std::size_t> counts_of(std::vector<parameter<T>> const& parameters) {
    std::vector<std::size_t> out;
    for (auto const& p : parameters) out.push_back(p.values.size());
    return out;
  }

  // Ranks with other parameters or options would make other calls.
  void agree(std::vector<parameter<T>> const& parameters, std::source_location where) {
    auto lines = tutti::detail::lines_about(std::span(parameters), comm_.rank(), where);
    lines.insert(lines.begin(), tutti::detail::line_about(options_));
    tutti::detail::expect_same_lines(comm_, lines, where);
    if (!options_.broadcast) return;
    for (auto const& p : parameters) tutti::broadcast(comm_, p.values, 0, {}, where);
  }

  void lay_out(std::vector<std::size_t> const& counts, std::vector<std::size_t> order) {
    order_ = std::move(order);
    gradients_ = gradient_array(comm_, plan_buckets(counts, order_, options_.buckets, sizeof(T)));
    pass_.begin(plan());
    statistics_.buckets.clear();
    for (auto const& b : plan().buckets) statistics_.buckets.push_back({.bytes = b.count * sizeof(T)});
  }

  // The last work of each communicator drives all of its works.
  void drive() noexcept {
    std::size_t const number = works_.size(), queues = std::min(number, others_.size() + 1);
    for (std::size_t i = number - queues; i < number; ++i) works_[i].advance();
  }
  // Gradients that nobody reported count as zeros; those that earlier passes have added up are complete.
  void start_the_rest() {
    for (std::size_t i = 0; i < size(); ++i)
      if (pass_.used()[i] == 0) std::ranges::fill(gradient(i), T{});
    while (!pass_.all_taken()) start(pass_.take_next());
  }
  // If the hook throws, the step has failed, and finish() throws that.
  void start(std::size_t index) {
    started_.push_back(clock::now());
    works_.emplace_back();
    if (failed_) return;
    try {
      works_.back() = hook_(bucket<T>{index, layout_, gradients_.of_bucket(index)}, communicator_of(index));
    } catch (...) {
      failed_ = std::current_exception();
    }
  }
  communicator<Transport>& communicator_of(std::size_t bucket) {
    std::size_t const turn = bucket % (others_.size() + 1);
    return turn == 0 ? comm_ : others_[turn - 1];
  }

  // `begin`: when this rank had nothing left to compute.
  void wait_for_all_ranks(clock::time_point begin) {
    auto last = begin;
    for (std::size_t i = 0; i < works_.size(); ++i) {
      works_[i].wait();
      auto const end = clock::now();
      statistics_.buckets[i].awaited += end - std::exchange(last, end);
      statistics_.buckets[i].in_flight += works_[i].duration();
    }
    agreement_.wait();
    statistics_.waited += clock::now() - begin;
  }
  // Ends all calls of all ranks for this model. Nothing happens to a communicator that has a fault already.
  void revoke(std::string_view why) noexcept {
    if (comm_.size() == 1) return;
    try {
      comm_.revoke(why);
      for (auto& other : others_) other.revoke(why);
    } catch (...) {
    }  // a forked process may not touch them
  }
  // Waits until nothing is in flight, whether or not it succeeds.
  void abandon() noexcept {
    for (work& w : works_) wait_quietly(w);
    wait_quietly(agreement_);
    works_.clear();
    started_.clear();
    failed_ = nullptr;
  }
  static void wait_quietly(work& w) noexcept {
    try {
      w.wait();
    } catch (...) {
    }  // finish() has thrown an error of this step, or another exception is on its way
  }
  void count_step() {
    ++statistics_.steps;
    auto last = started_.empty() ? clock::time_point{} : started_.front();
    for (std::size_t i = 0; i < works_.size(); ++i) {
      statistics_.bytes += statistics_.buckets[i].bytes;
      last = std::max(last, started_[i] + std::chrono::duration_cast<clock::duration>(works_[i].duration()));
    }
    if (!started_.empty()) statistics_.in_flight += last - started_.front();
    works_.clear();
    started_.clear();
  }

  // Collective. Groups the gradients by the order in which they became ready on rank 0.
  void rebuild(std::source_location where) {
    std::vector<std::size_t> order = pass_.observed_order(order_);
    tutti::broadcast(comm_, order, 0, {}, where);
    if (order == order_) return;
    std::vector<std::size_t> counts;
    for (auto const& place : plan().places) counts.push_back(place.count);
    gradient_array before = std::move(gradients_);
    ++layout_;
    lay_out(counts, std::move(order));
    stale_hashes_.clear();
    for (std::size_t i = 0; i < size(); ++i) {
      std::ranges::copy(before.of_parameter(i), gradients_.of_parameter(i).begin());
      stale_hashes_.push_back(hash_of(before.of_parameter(i)));
    }
    stale_ = std::move(before);
  }
  static std::size_t hash_of(std::span<T const> gradient) {
    return std::hash<std::string_view>()({reinterpret_cast<char const*>(gradient.data()), gradient.size_bytes()});
  }
  // The old array is kept for one step, in order to notice a gradient that is still written to it.
  void expect_not_stale(std::size_t parameter, std::source_location where) {
    if (parameter >= stale_.size()) return;
    if (hash_of(stale_.of_parameter(parameter)) != stale_hashes_[parameter])
      tutti::detail::refuse(comm_.rank(),
                            tutti::detail::join({"the gradient of parameter ", parameter,
                                                 " was written to where it was in the first step, but it has moved"}),
                            "call gradient() in every step, or set rebuild = false", where);
  }

  communicator<Transport>& comm_;
  std::vector<communicator<Transport>> others_;  // on which buckets are reduced at the same time
  data_parallel_options options_;
  Hook hook_;
  tutti::detail::backward_pass pass_;
  std::vector<std::size_t> order_;  // of the parameters in the buckets
  gradient_array gradients_, stale_;
  std::vector<std::size_t> stale_hashes_;  // of each parameter
  std::vector<std::uint8_t> used_;
  std::vector<work> works_;  // of the buckets in flight, in the order of their start
  work agreement_;           // on the parameters that are used
  std::vector<clock::time_point> started_;
  std::exception_ptr failed_;  // thrown by the hook in this step
  training_statistics statistics_{};
  std::size_t layout_ = 0;
  bool first_step_ = true;
  int exceptions_ = std::uncaught_exceptions();
  std::optional<tutti::progress_thread> driver_;
};

template <class Transport, class List, class Hook = average>
data_parallel(communicator<Transport>&, List&&, data_parallel_options const& = {}, Hook = {})
    -> data_parallel<tutti::detail::value_of_parameters<List>, Transport, Hook>;

}  // namespace tutti::training
