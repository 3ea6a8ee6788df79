// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The network of residual_network.hpp is trained by ranks that divide the data, the layers or the sequence of layers, in every way in
// which so many ranks can. Each function is what a rank does.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "support/expect.hpp"
#include "training/equality/residual_network.hpp"
#include "tutti/training.hpp"
#include "tutti/tutti.hpp"

namespace tutti::testing {

struct training_division {
  int data = 1, tensor = 1, pipeline = 1;
  int sharded = 0;        // the stage of sharded_data_parallel; 0: data_parallel
  bool sequence = false;  // ranks that divide layers divide the rows between them, too
  std::string_view schedule = "1f1b";

  // Enough for interleaved stages. Ranks that divide layers communicate in each, which takes time.
  std::size_t layers() const { return 2 * static_cast<std::size_t>(pipeline); }
  int microbatches() const { return pipeline > 1 ? 4 : 2; }

  std::string description() const {
    return "data " + std::to_string(data) + (sharded > 0 ? " in stage " + std::to_string(sharded) : "") + ", tensor " +
           std::to_string(tensor) + (sequence ? " and sequence" : "") + ", pipeline " + std::to_string(pipeline) +
           " by " + std::string(schedule);
  }
};

// Of a number of ranks: all meshes, with everything that they allow. Eight ranks have many, so each gets one schedule, in turn.
inline std::vector<training_division> training_divisions(int ranks) {
  std::vector<std::string_view> const schedules{"1f1b", "gpipe", "interleaved"};
  std::vector<training_division> out;
  for (int data = 1; data <= ranks; ++data)
    for (int tensor = 1; tensor <= ranks / data; ++tensor) {
      if (ranks % (data * tensor) != 0) continue;
      int const pipeline = ranks / (data * tensor);
      for (int const sharded : {0, 1, 2, 3})
        for (bool const sequence : {false, true}) {
          if (sequence && tensor == 1) continue;
          std::size_t const turn = out.size() % schedules.size();
          for (std::size_t s = 0; s < schedules.size(); ++s)
            if (pipeline == 1 ? s == 0 : ranks < 8 || s == turn)
              out.push_back({data, tensor, pipeline, sharded, sequence, schedules[s]});
        }
    }
  return out;
}

// data_parallel and an optimiser, with the calls of sharded_data_parallel.
template <class Transport>
class whole_parameters {
 public:
  whole_parameters(communicator<Transport>& comm, std::vector<std::vector<double>> values,
                   training::momentum const& rule)
      : values_(std::move(values)),
        model_(comm, values_, {.buckets = {.bytes = 1000, .first_bytes = 100}},
               training::average{{.algorithm = algorithm_id::two_shot}}),
        descent_(values_, rule) {}

  int gather(std::size_t) const { return 0; }
  std::span<double const> parameter(std::size_t i) const { return values_[i]; }
  std::span<double> gradient(std::size_t i) { return model_.gradient(i); }
  void ready(std::size_t i) { model_.ready(i); }
  void finish() { model_.finish(); }
  template <class... Arguments>
  double gradient_norm(Arguments&&... arguments) {
    return training::gradient_norm(model_, std::forward<Arguments>(arguments)...);
  }
  void step() { descent_.step(model_); }

 private:
  std::vector<std::vector<double>> values_;
  training::data_parallel<double, Transport> model_;
  training::optimizer<double, training::momentum> descent_;
};

// What a rank has of the network.
template <class Transport>
class divided_network {
 public:
  using course = residual_course;

  divided_network(mesh<Transport>& ranks, training_division const& by)
      : by_(by),
        ranks_(ranks),
        group_(ranks.along("tensor")),
        line_(ranks.along("pipeline"), training::find_pipeline_schedule(by.schedule, 2),
              training::activations<double>{{rows_of(0, 0, 0).count * course::features}},
              {.microbatches = by.microbatches()}) {
    for (int const stage : line_.local_stages())
      for (std::size_t l = first_layer(stage); l < first_layer(stage + 1); ++l) {
        layers_.push_back(l);
        gradients_.push_back(course::zeros(part_of(course::layer(l))));
      }
  }

  void check(trained_network const& expected) {
    std::vector<std::vector<double>> values;
    for (std::size_t const l : layers_) {
      residual_layer mine = part_of(course::layer(l));
      for (matrix_by_rows const* p : mine.parameters()) values.push_back(p->values);
    }
    training::momentum const rule{.rate = course::rate, .factor = course::factor};
    auto& data = ranks_.along("data");
    if (by_.sharded == 0) {
      whole_parameters<Transport> model(data, values, rule);
      return check(expected, model);
    }
    training::sharded_data_parallel model(data, values, rule,
                                          {.stage = by_.sharded,
                                           .units = std::vector<std::size_t>(layers_.size(), 3),
                                           .buckets = {.bytes = 1000, .first_bytes = 100}});
    check(expected, model);
  }

 private:
  struct kept_layers {
    std::vector<residual_layer::kept> layers;
    matrix_by_rows y;  // that of the last stage, whose values become gradients
  };

  std::size_t first_layer(int stage) const {
    return by_.layers() * static_cast<std::size_t>(stage) / static_cast<std::size_t>(line_.stages());
  }
  residual_layer part_of(residual_layer whole) const {
    for (matrix_by_rows* const p : {&whole.in, &whole.out}) {
      auto const by_units = training::sharded_dimension::rows(course::hidden, course::features);
      matrix_by_rows mine{part(course::hidden, group_.size(), group_.rank()).count, course::features};
      by_units.copy_part(std::span<double const>(p->values), std::span(mine.values), group_.size(), group_.rank());
      *p = std::move(mine);
    }
    return whole;
  }
  // The rows of a microbatch between layers.
  extent rows_of(int data, int microbatch, int tensor) const {
    extent const share = part(course::rows, by_.data, data), some = part(share.count, by_.microbatches(), microbatch);
    extent const mine = by_.sequence ? part(some.count, by_.tensor, tensor) : extent{0, some.count};
    return {share.begin + some.begin + mine.begin, mine.count};
  }
  extent rows_of(int microbatch) const { return rows_of(ranks_.coordinate("data"), microbatch, group_.rank()); }
  training::sharded_dimension by_rows(int microbatch) const {
    auto const share = part(course::rows, by_.data, ranks_.coordinate("data")).count;
    return training::sharded_dimension::rows(part(share, by_.microbatches(), microbatch).count, course::features);
  }
  matrix_by_rows received(std::span<double const> message, int microbatch) const {
    matrix_by_rows out{rows_of(microbatch).count, course::features};
    std::copy_n(message.begin(), out.values.size(), out.values.begin());
    return out;
  }
  static void send(matrix_by_rows const& from, std::span<double> message) {
    std::ranges::fill(std::ranges::copy(from.values, message.begin()).out, message.end(), 0.0);
  }

  // The layer whose parameters a model holds.
  template <class Model>
  residual_layer layer_in(Model& model, std::size_t local) const {
    residual_layer out = course::zeros(gradients_[local]);
    for (std::size_t k = 0; k < 3; ++k)
      std::ranges::copy(model.parameter(3 * local + k), out.parameters()[k]->values.begin());
    return out;
  }
  std::size_t local(std::size_t layer) const {
    return static_cast<std::size_t>(std::ranges::find(layers_, layer) - layers_.begin());
  }

  template <class Model>
  kept_layers forward(Model& model, training::stage_forward<double>& pass) {
    int const m = pass.microbatch;
    extent const mine = rows_of(m);
    matrix_by_rows x = pass.stage == 0 ? course::data(mine.begin, mine.count) : received(pass.in, m);
    kept_layers out;
    for (std::size_t l = first_layer(pass.stage); l < first_layer(pass.stage + 1); ++l) {
      [[maybe_unused]] auto const here = model.gather(local(l));
      residual_layer const layer = layer_in(model, local(l));
      matrix_by_rows whole = x;
      if (by_.sequence) {
        whole = {by_rows(m).extent, course::features};
        training::gather_sequence{by_rows(m)}.forward(group_, x.values, whole.values);
      }
      auto [y, kept] = layer.forward(whole);
      if (by_.sequence) {
        matrix_by_rows sum{x.rows, x.columns};
        training::reduce_scatter_sequence{by_rows(m)}.forward(group_, y.values, sum.values);
        y = std::move(sum);
      } else {
        training::reduce_from_group{}.forward(group_, y.values);
      }
      for (std::size_t i = 0; i < x.rows; ++i)
        for (std::size_t j = 0; j < x.columns; ++j) x(i, j) += layer.offsets(0, j) + y(i, j);
      out.layers.push_back(std::move(kept));
    }
    if (pass.stage < line_.stages() - 1) {
      send(x, pass.out);
      return out;
    }
    pass.loss = course::loss(x, mine.begin);
    // The mean over the data axis follows.
    for (double& g : x.values) g *= static_cast<double>(by_.data) / static_cast<double>(course::rows);
    out.y = std::move(x);
    return out;
  }
  template <class Model>
  void backward(Model& model, training::stage_backward<double> const& pass, kept_layers kept) {
    int const m = pass.microbatch;
    matrix_by_rows x = pass.stage == line_.stages() - 1 ? std::move(kept.y) : received(pass.out_gradient, m);
    for (std::size_t l = first_layer(pass.stage + 1); l-- > first_layer(pass.stage);) {
      std::size_t const at = local(l);
      [[maybe_unused]] auto const here = model.gather(at);
      residual_layer const layer = layer_in(model, at);
      gradients_[at].offsets += sum_of_rows(x);
      matrix_by_rows whole = x;
      if (by_.sequence) {
        whole = {by_rows(m).extent, course::features};
        training::reduce_scatter_sequence{by_rows(m)}.backward(group_, x.values, whole.values);
      }
      matrix_by_rows before = layer.backward(kept.layers[l - first_layer(pass.stage)], whole, gradients_[at]);
      if (by_.sequence) {
        matrix_by_rows mine{x.rows, x.columns};
        training::gather_sequence{by_rows(m)}.backward(async(group_), before.values, mine.values).wait();
        before = std::move(mine);
      } else {
        training::copy_to_group{}.backward(group_, before.values);
      }
      x += before;
      if (pass.last) report(model, at);
    }
    if (pass.stage > 0) send(x, pass.in_gradient);
  }
  template <class Model>
  void report(Model& model, std::size_t at) {
    if (by_.sequence) all_reduce(group_, gradients_[at].offsets.values);
    for (std::size_t k = 3; k-- > 0;) {
      std::ranges::copy(gradients_[at].parameters()[k]->values, model.gradient(3 * at + k).begin());
      model.ready(3 * at + k);
    }
    gradients_[at] = course::zeros(gradients_[at]);
  }

  // Sums are added up in another order than by one process.
  static bool is_near(double a, double b) { return std::abs(a - b) <= 1e-12 * std::max(1.0, std::abs(b)); }

  template <class Model>
  void check(trained_network const& expected, Model& model) {
    auto& rest = ranks_.along({"tensor", "pipeline"});
    for (std::size_t step = 0; step < course::steps; ++step) {
      std::vector loss{line_.run([&](auto& pass) { return forward(model, pass); },
                                 [&](auto const& pass, kept_layers kept) { backward(model, pass, std::move(kept)); })};
      model.finish();
      // Only the offsets are whole on all ranks that divide a layer.
      double const norm = model.gradient_norm(rest, [&](std::size_t i) { return i % 3 < 2 || group_.rank() == 0; });
      expect(is_near(norm, expected.norms[step]), "another norm than that of one process: " + by_.description());
      model.step();
      if (by_.sequence) all_reduce(group_, loss);
      all_reduce(ranks_.along("data"), loss);
      expect(is_near(loss[0], expected.losses[step]), "another loss than that of one process: " + by_.description());
    }
    for (std::size_t at = 0; at < layers_.size(); ++at) {
      [[maybe_unused]] auto const here = model.gather(at);
      residual_layer mine = layer_in(model, at), right = part_of(expected.layers[layers_[at]]);
      for (std::size_t k = 0; k < 3; ++k)
        expect(std::ranges::equal(mine.parameters()[k]->values, right.parameters()[k]->values, is_near),
               "other parameters than those of one process: " + by_.description());
    }
  }

  training_division by_;
  mesh<Transport>& ranks_;
  communicator<Transport>& group_;
  training::pipeline<double, Transport> line_;
  std::vector<std::size_t> layers_;  // of this rank
  std::vector<residual_layer> gradients_;
};

template <class Transport>
void check_divided_training(communicator<Transport>& comm) {
  std::optional<mesh<Transport>> ranks;
  training_division last{.data = 0};
  for (training_division const& by : training_divisions(comm.size())) {
    if (std::pair(by.data, by.tensor) != std::pair(last.data, last.tensor))
      ranks.emplace(comm, std::vector<mesh_axis>{{"data", by.data}, {"tensor", by.tensor}, {"pipeline", by.pipeline}});
    last = by;
    trained_network const expected = network_of_one_process(by.layers());
    expect(expected.losses.back() < expected.losses.front(), "one process learns nothing");
    divided_network<Transport>(*ranks, by).check(expected);
  }
}

}  // namespace tutti::testing
