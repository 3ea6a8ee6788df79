// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Training of a transformer by a mesh of ranks: some share each batch (data), some each layer (tensor), and some have different
// layers (pipeline).
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <numeric>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <Eigen/Core>

#include <tutti/training.hpp>
#include <tutti/tutti.hpp>

#include "layers.hpp"
#include "shared_parameters.hpp"
#include "transformer.hpp"

struct division {
  int data = 1, tensor = 1, pipeline = 1;
  bool sequence = false;
  int stage = 0;         // of sharding among the ranks of the data axis
  int microbatches = 1;  // into which each rank of the data axis divides its share of a batch
  std::string schedule = "1f1b";
  int stages_per_rank = 2;               // of interleaved schedules
  std::size_t bucket_bytes = 256 << 10;  // of gradients; small, because the whole model is
  bool adapt = false;                    // or another size, which the training finds

  int ranks() const { return data * tensor * pipeline; }
};

// Sums over images.
struct score {
  double loss = 0, right = 0;
};

template <class T, class Transport>
class trainer {
 public:
  // For batches of at most `batch` images.
  trainer(tutti::communicator<Transport>& comm, architecture const& with, division const& by, std::size_t batch,
          double rate)
      : with_(with),
        by_(by),
        batch_(batch),
        mesh_(comm, {{"pipeline", by.pipeline}, {"data", by.data}, {"tensor", by.tensor}}),
        group_{mesh_.along("tensor"), by.sequence && by.tensor > 1, with.tokens(), communication_},
        line_(mesh_.along("pipeline"), tutti::training::find_pipeline_schedule(by.schedule, by.stages_per_rank),
              tutti::training::activations<T>{{most_images() * group_.own_tokens() * with.features}},
              {.microbatches = by.microbatches}),
        model_(make_model({.rate = rate})) {}

  // A step with these images, which are columns. All ranks pass the same. Returns the sum of the losses over this rank's share
  // of the batch, which it has in common with its tensor group and its pipeline.
  template <class Images>
  double learn(Images const& images, std::span<int const> labels) {
    T const scale = static_cast<T>(by_.data) / static_cast<T>(labels.size());  // the mean over data ranks follows
    model_->zero();
    auto const begin = clock::now();
    auto const computing = line_.statistics().computing;
    double const loss = line_.run(
        // Returns the gradient of the logits, for the backward pass.
        [&](tutti::training::stage_forward<T>& pass) {
          tutti::extent const some = images_of(pass.microbatch, labels.size());
          matrix<T> y = forward(pass, images.middleCols(index_of(some.begin), index_of(some.count)));
          if (!is_last(pass.stage)) return matrix<T>();
          auto const wanted = labels.subspan(some.begin, some.count);
          pass.loss = loss_of(y, wanted);
          entropy().backward(group_.ranks, elements(y), wanted, std::vector<T>(some.count, scale));
          return y;
        },
        [&](tutti::training::stage_backward<T> const& pass, matrix<T> gradient) {
          std::size_t const count = images_of(pass.microbatch, labels.size()).count;
          if (!is_last(pass.stage)) gradient = activation_in(pass.out_gradient, count);
          gradient = stages_[local(pass.stage)].backward(
              std::move(gradient), pass.microbatch, pass.last, [&](block<T>& b) { return gather_for_backward(b); },
              [&](block<T>& b) { report(b); });
          if (pass.stage > 0) copy_to(pass.in_gradient, gradient);
        });
    if (by_.pipeline > 1) waited_in_pipeline_ += clock::now() - begin - (line_.statistics().computing - computing);
    model_->step();
    return loss;
  }

  // Collective. The sums over all images, the same on all ranks.
  template <class Images>
  score evaluate(Images const& images, std::span<int const> labels) {
    score out;
    for (std::size_t at = 0; at < labels.size(); at += batch_) {
      std::size_t const batch = std::min(batch_, labels.size() - at);
      out.loss += line_.evaluate([&](tutti::training::stage_forward<T>& pass) {
        tutti::extent const some = images_of(pass.microbatch, batch);
        matrix<T> y = forward(pass, images.middleCols(index_of(at + some.begin), index_of(some.count)));
        if (!is_last(pass.stage)) return;
        auto const wanted = labels.subspan(at + some.begin, some.count);
        pass.loss = loss_of(y, wanted);
        auto const likeliest = likeliest_of(y);
        for (std::size_t i = 0; i < some.count; ++i) out.right += likeliest[i].index == wanted[i] ? 1 : 0;
      });
    }
    std::array sums{mesh_.coordinate("pipeline") == 0 ? out.loss : 0, out.right};
    tutti::all_reduce(mesh_.along({"pipeline", "data"}), sums);
    return {sums[0], sums[1]};
  }

  // Collective among the ranks of the data axis. Calls f(parameter) for each of this rank.
  template <class F>
  void for_each_parameter(F&& f) {
    for_each_block([&](block<T>& b) {
      auto const here = gather(b);
      for (parameter<T> const& p : b.all_parameters()) f(p);
    });
  }
  tutti::mesh<Transport>& mesh() { return mesh_; }
  // The time in which this rank communicated, or waited for others, and did nothing else.
  std::chrono::duration<double> communication() const {
    return communication_.total() + waited_in_pipeline_ + model_->communication();
  }

 private:
  using clock = std::chrono::steady_clock;

  template <class F>
  void for_each_block(F&& f) {
    for (auto& some : stages_)
      for (auto const& b : some.blocks()) f(*b);
  }
  std::unique_ptr<shared_parameters<T>> make_model(tutti::training::adam const& rule) {
    for (int const s : line_.local_stages()) stages_.emplace_back(with_, line_.stages(), s, group_);
    std::vector<tutti::training::parameter<T>> listed;
    std::vector<std::size_t> units;
    for_each_block([&](block<T>& b) {
      b.place = units.size();
      b.first_parameter = listed.size();
      units.push_back(b.all_parameters().size());
      for (parameter<T>& p : b.all_parameters()) listed.push_back({p.drawn, p.name, p.shape});
    });
    tutti::training::bucket_sizes const buckets{.bytes = by_.bucket_bytes,
                                                .first_bytes = std::min(by_.bucket_bytes / 16, std::size_t{1} << 20)};
    if (by_.stage > 0) {
      auto out = std::make_unique<sharded_parameters<T, Transport>>(
          mesh_.along("data"), listed, rule,
          tutti::training::sharding_options{.stage = by_.stage, .units = units, .buckets = buckets});
      for_each_block([](block<T>& b) {
        for (parameter<T>& p : b.all_parameters()) p.drawn = std::vector<T>();  // the model has copied them
      });
      return out;
    }
    tutti::training::data_parallel_options options{.buckets = buckets, .rebuild = false};
    if (by_.adapt) options.adapt.emplace();
    return std::make_unique<whole_parameters<T, Transport>>(mesh_.along("data"), listed, rule, options);
  }
  std::size_t local(int stage) const {
    return static_cast<std::size_t>(std::ranges::find(line_.local_stages(), stage) - line_.local_stages().begin());
  }
  bool is_last(int stage) const { return stage == line_.stages() - 1; }

  // -- Images of a microbatch of this rank's share of a batch. Their numbers differ by one at most.

  tutti::extent images_of(int microbatch, std::size_t batch) const {
    tutti::extent const share = tutti::part(batch, by_.data, mesh_.coordinate("data"));
    tutti::extent const some = tutti::part(share.count, by_.microbatches, microbatch);
    return {share.begin + some.begin, some.count};
  }
  std::size_t most_images() const {
    return tutti::part(tutti::part(batch_, by_.data, 0).count, by_.microbatches, 0).count;
  }

  // Messages have room for the largest microbatch.
  matrix<T> activation_in(std::span<T const> message, std::size_t images) const {
    matrix<T> out(index_of(images * group_.own_tokens()), index_of(with_.features));
    std::copy_n(message.begin(), out.size(), out.data());
    return out;
  }
  static void copy_to(std::span<T> message, matrix<T> const& activation) {
    auto const rest = std::ranges::copy(elements(activation), message.begin()).out;
    std::fill(rest, message.end(), T{});
  }

  // -- Passes.

  template <class Images>
  matrix<T> forward(tutti::training::stage_forward<T>& pass, Images const& images) {
    matrix<T> x = pass.stage == 0 ? patches_of<T>(with_, images) : activation_in(pass.in, size_of(images.cols()));
    matrix<T> y =
        stages_[local(pass.stage)].forward(std::move(x), pass.microbatch, [&](block<T>& b) { return gather(b); });
    if (!is_last(pass.stage)) copy_to(pass.out, y);
    return y;
  }
  std::shared_ptr<void const> gather(block<T>& some) {
    auto out = model_->gather(some.place);
    std::size_t i = some.first_parameter;
    for (parameter<T>& p : some.all_parameters()) p.values = model_->parameter(i++);
    return out;
  }
  std::shared_ptr<void const> gather_for_backward(block<T>& some) {
    auto out = gather(some);
    std::size_t i = some.first_parameter;
    for (parameter<T>& p : some.all_parameters()) p.gradient = model_->gradient(i++);
    return out;
  }
  // Called when the gradients of a block are complete.
  void report(block<T>& some) {
    for (std::size_t i = some.all_parameters().size(); i-- > 0;) model_->ready(some.first_parameter + i);
  }

  tutti::training::sharded_cross_entropy entropy() const { return {.classes = with_.classes}; }
  // Turns logits into probabilities.
  double loss_of(matrix<T>& logits, std::span<int const> wanted) {
    std::vector<T> losses(wanted.size());
    communication_([&] { entropy().forward(group_.ranks, elements(logits), wanted, losses); });
    return std::accumulate(losses.begin(), losses.end(), 0.0);
  }
  // The class of each image that has the greatest probability.
  std::vector<tutti::located<T>> likeliest_of(matrix<T> const& probabilities) {
    std::vector<tutti::located<T>> out(size_of(probabilities.rows()), {T(-1), 0});
    auto const first = static_cast<std::int64_t>(group_.own(with_.classes).begin);
    for (Eigen::Index i = 0; i < probabilities.rows(); ++i)
      for (Eigen::Index k = 0; k < probabilities.cols(); ++k)
        if (auto& best = out[size_of(i)]; probabilities(i, k) > best.value) best = {probabilities(i, k), first + k};
    tutti::all_reduce(group_.ranks, out, tutti::argmax{});
    return out;
  }

  architecture with_;
  division by_;
  std::size_t batch_;
  tutti::mesh<Transport> mesh_;
  stopwatch communication_;  // with ranks that share layers
  tensor_group<Transport> group_;
  tutti::training::pipeline<T, Transport> line_;
  std::deque<stage<T, Transport>> stages_;
  std::unique_ptr<shared_parameters<T>> model_;
  clock::duration waited_in_pipeline_{};
};
