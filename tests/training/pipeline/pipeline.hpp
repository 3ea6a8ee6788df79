// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A pipeline computes what one process does, with the same bits. Each function is what a rank does.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "support/expect.hpp"
#include "tutti/training.hpp"
#include "tutti/tutti.hpp"

namespace tutti::testing {

// Dense layers with tanh, of different widths, and two rows of data in a microbatch.
class dense_model {
 public:
  using values = std::vector<double>;
  static constexpr int layers = 16;
  static constexpr std::size_t rows = 2;

  dense_model() {
    for (int l = 0; l < layers; ++l) {
      weights.emplace_back(width(l) * width(l + 1));
      for (std::size_t i = 0; i < weights.back().size(); ++i)
        weights.back()[i] = std::sin(static_cast<double>(i) + 7.3 * l);
      gradients.emplace_back(weights.back().size());
    }
  }

  static std::size_t width(int layer) { return 3 + static_cast<std::size_t>(layer) % 3; }
  static int first_layer(int stage, int stages) { return stage * layers / stages; }
  // What a stage passes to the next one.
  static std::vector<std::size_t> sizes(int stages) {
    std::vector<std::size_t> out;
    for (int stage = 1; stage < stages; ++stage) out.push_back(rows * width(first_layer(stage, stages)));
    return out;
  }

  static values data_of(int microbatch) {
    values out(rows * width(0));
    for (std::size_t i = 0; i < out.size(); ++i) out[i] = std::cos(static_cast<double>(i) + 3.1 * microbatch);
    return out;
  }
  static double target(int microbatch, std::size_t i) { return 0.1 * static_cast<double>(i) - 0.05 * microbatch; }

  // The inputs of the layers from `first` up to `end`, and the output of the last of them.
  std::vector<values> forward(int first, int end, values in) const {
    std::vector<values> out{std::move(in)};
    for (int l = first; l < end; ++l) {
      std::size_t const m = width(l), n = width(l + 1);
      values y(rows * n);
      for (std::size_t r = 0; r < rows; ++r)
        for (std::size_t j = 0; j < n; ++j) {
          double sum_of_row = 0;
          for (std::size_t i = 0; i < m; ++i) sum_of_row += out.back()[r * m + i] * weights_of(l)[i * n + j];
          y[r * n + j] = std::tanh(sum_of_row);
        }
      out.push_back(std::move(y));
    }
    return out;
  }
  // Adds the gradients of these layers, and returns that of their input.
  values backward(int first, int end, std::vector<values> const& saved, values gradient) {
    for (int l = end; l-- > first;) {
      auto const at = static_cast<std::size_t>(l - first);
      std::size_t const m = width(l), n = width(l + 1);
      values before(rows * m);
      for (std::size_t r = 0; r < rows; ++r)
        for (std::size_t j = 0; j < n; ++j) {
          double const y = saved[at + 1][r * n + j], slope = gradient[r * n + j] * (1 - y * y);
          for (std::size_t i = 0; i < m; ++i) {
            gradients[static_cast<std::size_t>(l)][i * n + j] += saved[at][r * m + i] * slope;
            before[r * m + i] += weights_of(l)[i * n + j] * slope;
          }
        }
      gradient = std::move(before);
    }
    return gradient;
  }
  // The loss of a microbatch, and its gradient.
  static std::pair<double, values> loss(values const& y, int microbatch) {
    std::pair<double, values> out{0, y};
    for (std::size_t i = 0; i < y.size(); ++i) {
      out.second[i] -= target(microbatch, i);
      out.first += 0.5 * out.second[i] * out.second[i];
    }
    return out;
  }
  void step() {
    for (std::size_t l = 0; l < weights.size(); ++l)
      for (std::size_t i = 0; i < weights[l].size(); ++i) weights[l][i] -= 0.1 * std::exchange(gradients[l][i], 0);
  }

  // A batch on one process, whose microbatches are numbered from `from`.
  double whole_batch(int microbatches, int from = 0) {
    double total = 0;
    for (int m = from; m < from + microbatches; ++m) {
      auto const saved = forward(0, layers, data_of(m));
      auto const [error_of_batch, gradient] = loss(saved.back(), m);
      total += error_of_batch;
      backward(0, layers, saved, gradient);
    }
    return total;
  }

  std::vector<values> weights, gradients;

 private:
  values const& weights_of(int l) const { return weights[static_cast<std::size_t>(l)]; }
};

// The stages of a rank, as functions of a pipeline; counts what it does.
struct staged_model {
  dense_model& model;
  int stages;
  int from = 0;  // the number of the first microbatch
  int alive = 0, most = 0, again = 0, completed = 0;

  int first(int stage) const { return dense_model::first_layer(stage, stages); }
  auto forward() {
    return [this](training::stage_forward<double>& pass) {
      if (pass.again) ++again;
      else most = std::max(most, ++alive);
      int const m = from + pass.microbatch;
      auto saved =
          model.forward(first(pass.stage), first(pass.stage + 1),
                        pass.stage == 0 ? model.data_of(m) : dense_model::values(pass.in.begin(), pass.in.end()));
      if (pass.stage == stages - 1) pass.loss = model.loss(saved.back(), m).first;
      else std::ranges::copy(saved.back(), pass.out.begin());
      return saved;
    };
  }
  auto backward() {
    return [this](training::stage_backward<double> const& pass, std::vector<dense_model::values> saved) {
      --alive;
      if (pass.last) ++completed;
      auto gradient = pass.stage == stages - 1
                          ? model.loss(saved.back(), from + pass.microbatch).second
                          : dense_model::values(pass.out_gradient.begin(), pass.out_gradient.end());
      gradient = model.backward(first(pass.stage), first(pass.stage + 1), saved, std::move(gradient));
      if (pass.stage > 0) std::ranges::copy(gradient, pass.in_gradient.begin());
    };
  }
};

inline void expect_same_layers(dense_model const& a, dense_model const& b, int stage, int stages,
                               std::string const& what) {
  for (int l = dense_model::first_layer(stage, stages); l < dense_model::first_layer(stage + 1, stages); ++l)
    expect(a.weights[static_cast<std::size_t>(l)] == b.weights[static_cast<std::size_t>(l)],
           "other weights of layer " + std::to_string(l) + ": " + what);
}

// Two batches, and the loss of a third.
template <class Comm>
void check_one_pipeline(Comm& comm, training::dynamic_pipeline_schedule const& schedule,
                        training::pipeline_options const& options) {
  training::pipeline_shape const shape{comm.size(), options.microbatches};
  int const stages = schedule.stages(shape), m = options.microbatches;
  std::string const what = std::string(schedule.name) + ", " + std::to_string(m) + " microbatches";
  dense_model mine, reference;
  training::pipeline line(comm, schedule, training::activations<double>{dense_model::sizes(stages)}, options);
  expect(line.stages() == stages, "the number of stages");
  staged_model run{mine, stages};
  for (int batch = 0; batch < 2; ++batch) {
    expect(line.run(run.forward(), run.backward()) == reference.whole_batch(m), "another loss: " + what);
    mine.step();
    reference.step();
  }
  for (int const stage : line.local_stages()) expect_same_layers(mine, reference, stage, stages, what);
  int const local = static_cast<int>(line.local_stages().size());
  expect(run.most == schedule.live(shape, comm.rank()), "the number of live activations: " + what);
  expect(run.completed == 2 * local, "a last backward pass for each stage and batch: " + what);
  // All but those whose backward pass follows at once.
  int dropped = 0;
  for (int i = 0; i < training::pipeline_steps(schedule, shape, comm.rank()); ++i) {
    auto const now = schedule.at(shape, comm.rank(), i);
    if (now.pass == training::pipeline_pass::backward) continue;
    auto const then = schedule.at(shape, comm.rank(), i + 1);
    dropped += then != training::pipeline_action{training::pipeline_pass::backward, now.stage, now.microbatch};
  }
  expect(run.again == (options.recompute ? 2 * dropped : 0), "the number of recomputations: " + what);
  double const before = reference.whole_batch(m);
  auto const seen = line.statistics();
  expect(line.evaluate(run.forward()) == before, "another loss of evaluation: " + what);
  expect(line.statistics().computing == seen.computing && line.statistics().bytes == seen.bytes,
         "an evaluation is counted as training: " + what);
}

// Each rank has a stage on the way there and one on the way back, so the last rank passes activations to itself.
struct there_and_back {
  static constexpr std::string_view name = "there_and_back";

  constexpr int stages(training::pipeline_shape s) const { return 2 * s.ranks; }
  constexpr int rank_of(training::pipeline_shape s, int stage) const {
    return stage < s.ranks ? stage : 2 * s.ranks - 1 - stage;
  }
  constexpr training::pipeline_action at(training::pipeline_shape s, int rank, int i) const {
    using enum training::pipeline_pass;
    int const turn = i / s.microbatches;
    bool const far = turn == 1 || turn == 2;
    return {turn < 2 ? forward : backward, far ? 2 * s.ranks - 1 - rank : rank, i % s.microbatches};
  }
  constexpr int live(training::pipeline_shape s, int) const { return 2 * s.microbatches; }
};

template <class Comm>
void check_pipelines(Comm& comm) {
  for (int const microbatches : {1, 3, 4, 6})
    for (bool const recompute : {false, true}) {
      training::pipeline_options const options{.microbatches = microbatches, .recompute = recompute};
      for (auto const& schedule : training::pipeline_schedules()) check_one_pipeline(comm, schedule, options);
      check_one_pipeline(comm, there_and_back{}, options);
    }
  check_one_pipeline(comm, training::gpipe{}, {.microbatches = 5, .prefetch = 0});
  int const all = std::numeric_limits<int>::max();
  check_one_pipeline(comm, training::gpipe{}, {.microbatches = 5, .prefetch = all, .progress_thread = true});
}

// Activations that do not fit into messages that are sent at once; and stages that keep nothing.
template <class Comm>
void check_large_activations(Comm& comm) {
  constexpr std::size_t elements = 50000;
  constexpr int microbatches = 6;
  training::pipeline line(comm, training::one_forward_one_backward{}, training::activations<float>{{elements}},
                          {.microbatches = microbatches});
  for (int batch = 0; batch < 2; ++batch) {
    int wrong = 0;
    double const loss = line.run(
        [&](training::stage_forward<float>& pass) {
          for (std::size_t i = 0; i < elements; ++i) {
            float const x = pass.in.empty() ? static_cast<float>(i) : pass.in[i];
            if (pass.out.empty())
              wrong += x != static_cast<float>(i) + static_cast<float>(pass.stage * pass.microbatch);
            else pass.out[i] = x + static_cast<float>(pass.microbatch);
          }
          pass.loss = pass.microbatch;
        },
        [&](training::stage_backward<float> const& pass) {
          for (std::size_t i = 0; i < pass.in_gradient.size(); ++i)
            pass.in_gradient[i] = pass.out_gradient.empty() ? static_cast<float>(i) : pass.out_gradient[i] + 1;
          for (std::size_t i = 0; i < pass.out_gradient.size(); ++i)
            wrong += pass.out_gradient[i] != static_cast<float>(i) + static_cast<float>(comm.size() - 2 - pass.stage);
        });
    expect(wrong == 0 && loss == 15, "large activations are wrong");
  }
  auto const& seen = line.statistics();
  std::size_t const neighbours = comm.size() == 1 ? 0 : comm.rank() == 0 || comm.rank() == comm.size() - 1 ? 1 : 2;
  expect(seen.batches == 2 && seen.bytes == 2 * microbatches * neighbours * elements * sizeof(float),
         "the statistics are wrong");
  expect(seen.computing.count() > 0 && seen.elapsed >= seen.computing && seen.bubble() >= 0, "the times are wrong");
}

// Two pipelines of two ranks, whose gradients are averaged.
template <class Comm>
void check_pipelines_of_a_mesh(Comm& comm) {
  constexpr int microbatches = 3;
  mesh grid(comm, {{"data", 2}, {"pipeline", 2}});
  for (auto const& schedule : training::pipeline_schedules()) {
    int const stages = schedule.stages({2, microbatches}), replica = grid.coordinate("data");
    dense_model mine;
    training::pipeline line(grid.along("pipeline"), schedule, training::activations<double>{dense_model::sizes(stages)},
                            {.microbatches = microbatches});
    std::vector<std::size_t> layers;  // of this rank
    std::vector<std::span<double>> parameters;
    for (int const stage : line.local_stages())
      for (int l = dense_model::first_layer(stage, stages); l < dense_model::first_layer(stage + 1, stages); ++l) {
        layers.push_back(static_cast<std::size_t>(l));
        parameters.emplace_back(mine.weights[layers.back()]);
      }
    training::data_parallel averaged(grid.along("data"), parameters);
    staged_model run{mine, stages, replica * microbatches};
    auto const backward = [&](training::stage_backward<double> const& pass, std::vector<dense_model::values> saved) {
      run.backward()(pass, std::move(saved));
      if (!pass.last) return;
      for (std::size_t i = layers.size(); i-- > 0;) {
        auto const l = static_cast<int>(layers[i]);
        if (l < run.first(pass.stage) || l >= run.first(pass.stage + 1)) continue;
        std::ranges::copy(mine.gradients[layers[i]], averaged.gradient(i).begin());
        averaged.ready(i);
      }
    };
    dense_model halves[2];
    for (int batch = 0; batch < 3; ++batch) {
      double const losses[] = {halves[0].whole_batch(microbatches), halves[1].whole_batch(microbatches, microbatches)};
      expect(line.run(run.forward(), backward) == losses[replica], "another loss in a mesh");
      averaged.finish();
      for (std::size_t i = 0; i < layers.size(); ++i)
        std::ranges::copy(averaged.gradient(i), mine.gradients[layers[i]].begin());
      mine.step();
      for (std::size_t l = 0; l < dense_model::layers; ++l)
        for (std::size_t i = 0; i < halves[0].gradients[l].size(); ++i)
          halves[0].gradients[l][i] = halves[1].gradients[l][i] =
              (halves[0].gradients[l][i] + halves[1].gradients[l][i]) / 2;
      for (dense_model& half : halves) half.step();
    }
    for (int const stage : line.local_stages()) expect_same_layers(mine, halves[0], stage, stages, "in a mesh");
  }
}

template <class Comm>
void check_pipeline_misuse(Comm& comm) {
  auto const refused = [&](auto const& schedule, std::vector<std::size_t> sizes, training::pipeline_options const& o,
                           std::string const& words) {
    expect_error(
        error_of([&] {
          return training::pipeline(comm, schedule, training::activations<float>{std::move(sizes)}, o).stages();
        }),
        error_code::bad_argument, words);
  };
  struct stalled : training::gpipe {
    training::pipeline_action at(training::pipeline_shape, int rank, int) const { return {.stage = rank}; }
  };
  refused(training::gpipe{}, {1}, {.microbatches = 0}, "pipeline_options::microbatches is 0");
  refused(training::gpipe{}, {1}, {.prefetch = -1}, "pipeline_options::prefetch is -1");
  refused(training::gpipe{}, std::vector<std::size_t>(9), {}, "there are 9 sizes of activations for");
  refused(stalled{}, {1}, {}, "the pipeline schedule gpipe is wrong: rank 0, step 1: the forward pass of microbatch 0");
  if (comm.size() == 1) return;
  bool const odd = comm.rank() == comm.size() - 1;
  expect_error(
      error_of([&] {
        return training::pipeline(comm, training::gpipe{}, training::activations<float>{{odd ? 8u : 4u}}).stages();
      }),
      error_code::mismatch, "has stage 0 with an activation of 8 elements, but rank 0 has");
  expect_error(error_of([&] {
                 return training::pipeline(comm, training::gpipe{}, training::activations<float>{{4}},
                                           {.microbatches = odd ? 2 : 4})
                     .stages();
               }),
               error_code::mismatch, "pass the same schedule, sizes and options on every rank");
}

// One rank evaluates a batch that the others run, or runs one that they evaluate. All are told, long before the time limit.
template <class Comm>
void check_mixed_calls(Comm& comm, int odd) {
  for (bool const odd_runs : {true, false})
    for (bool const progress_thread : {false, true}) {
      auto own = comm.split(0).value();
      training::pipeline line(own, training::one_forward_one_backward{}, training::activations<float>{{4}},
                              {.microbatches = 4, .progress_thread = progress_thread});
      auto const forward = [](auto& pass) { std::ranges::fill(pass.out, 1.0f); };
      auto const run = [&] {
        return line.run(forward, [](auto const& pass) { std::ranges::fill(pass.in_gradient, 1.0f); });
      };
      auto const evaluate = [&] { return line.evaluate(forward); };
      run();
      bool const runs = (comm.rank() == odd) == odd_runs;
      int const other = odd == 0 ? 1 : 0, first_run = odd_runs ? odd : other, first_evaluation = odd_runs ? other : odd;
      error const e = runs ? error_of(run) : error_of(evaluate);
      // The first to notice ends the calls of the others, which may not have noticed yet.
      expect_error(e, e.code() == error_code::revoked ? error_code::revoked : error_code::mismatch,
                   "rank " + std::to_string(first_run) + " has called run(), but rank " +
                       std::to_string(first_evaluation) + " has called evaluate() of the same pipeline");
    }
}

// A stage throws on one rank: the others are told which.
template <class Comm>
void check_throwing_stage(Comm& comm, training::pipeline_pass where, int rank) {
  auto const fails = [&](training::pipeline_pass pass, int microbatch) {
    if (pass == where && microbatch == 2 && comm.rank() == rank) throw std::runtime_error("no more memory");
  };
  auto const batch = [&] {
    // A rank may learn of the failure while it still makes the pipeline.
    training::pipeline line(comm, training::one_forward_one_backward{}, training::activations<float>{{4}},
                            {.microbatches = 4});
    return line.run([&](auto& pass) { fails(training::pipeline_pass::forward, pass.microbatch); },
                    [&](auto const& pass) { fails(training::pipeline_pass::backward, pass.microbatch); });
  };
  if (comm.rank() == rank) {
    bool thrown = false;
    try {
      batch();
    } catch (std::runtime_error const& e) {
      thrown = std::string(e.what()) == "no more memory";
    }
    expect(thrown, "the exception of the stage is lost");
    return;
  }
  error const e = error_of(batch);
  bool const forward = where == training::pipeline_pass::forward;
  expect_error(e, error_code::revoked,
               "rank " + std::to_string(rank) + " has revoked the communicator: the " +
                   (forward ? "forward" : "backward") + " pass of microbatch 2 at stage " + std::to_string(rank) +
                   " failed: no more memory");
}
template <class Comm>
void check_throwing_stages(Comm& comm, int rank) {
  auto again = comm.split(0).value();
  check_throwing_stage(comm, training::pipeline_pass::forward, rank);
  check_throwing_stage(again, training::pipeline_pass::backward, rank);
}

// Rank 1 leaves in the middle of a batch.
template <class Comm, class Leave>
void check_loss_in_pipeline(Comm& comm, error_code expected, Leave const& leave) {
  if (comm.rank() == 1 && expected == error_code::rank_left) {
    training::pipeline const made(comm, training::one_forward_one_backward{}, training::activations<float>{{4}},
                                  {.microbatches = 8});
    return leave();
  }
  error const thrown = error_of([&] {
    training::pipeline line(comm, training::one_forward_one_backward{}, training::activations<float>{{4}},
                            {.microbatches = 8});
    return line.run([](auto& pass) { std::ranges::fill(pass.out, 1.0f); },
                    [&](auto const& pass) {
                      if (comm.rank() == 1 && pass.microbatch == 3) leave();
                      std::ranges::fill(pass.in_gradient, 1.0f);
                    });
  });
  expect_error(thrown, expected, "rank 1");
  expect(thrown.peer() == 1, "the error has another peer");
}

}  // namespace tutti::testing
