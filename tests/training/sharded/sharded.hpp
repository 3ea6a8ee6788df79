// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Sharded training changes parameters as data_parallel and an optimiser do, to the bit. Each function is what a rank does.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <random>
#include <span>
#include <stdexcept>
#include <string>
#include <tuple>
#include <vector>

#include "support/expect.hpp"
#include "tutti/training.hpp"
#include "tutti/tutti.hpp"

namespace tutti::testing {

// A model of a few units, whose gradients depend on the rank, the step, the pass and the parameters.
template <class T>
struct layered_model {
  using number = training::master_of<T>;
  std::vector<std::vector<T>> parameters{};
  std::vector<std::size_t> units{2, 3, 1, 2};

  layered_model() {
    for (std::size_t const n : {7u, 300u, 0u, 1u, 64u, 1300u, 33u, 250u}) parameters.emplace_back(n);
    std::mt19937 random(5);
    std::normal_distribution<number> normal;
    for (auto& p : parameters)
      for (T& x : p) x = T(normal(random));
  }
  std::size_t elements() const {
    return std::accumulate(parameters.begin(), parameters.end(), std::size_t{0},
                           [](std::size_t n, auto const& p) { return n + p.size(); });
  }
  std::size_t first_of(std::size_t unit) const {
    return std::accumulate(units.begin(), units.begin() + static_cast<std::ptrdiff_t>(unit), std::size_t{0});
  }

  static T gradient(int rank, int step, int pass, std::size_t i, std::size_t k, T x) {
    auto const at = static_cast<double>(rank) * 1.7 + step * 0.9 + pass * 2.3 + static_cast<double>(i * 31 + k) * 0.013;
    return T(static_cast<number>(std::sin(at)) + number(x) / 8);
  }
  // The gradient of a pass, added to that of others or not.
  static T next(bool adds, T before, T some) { return adds ? T(number(before) + number(some)) : some; }
};

struct training_course {
  int steps = 4;
  int local_passes = 0;    // in each step, before the pass that is reduced
  int reduced_passes = 1;  // in each step
  double scale = 1;
  bool (*takes_part)(int rank, int step, int pass, std::size_t parameter) = [](int, int, int, std::size_t) {
    return true;
  };
};

// The parameters that data_parallel and an optimiser arrive at.
template <class T, class Comm, class Rule>
std::vector<std::vector<T>> unsharded(Comm& comm, Rule const& rule, training_course const& course) {
  layered_model<T> some;
  training::data_parallel model(comm, some.parameters, {.buckets = {.bytes = 2000, .first_bytes = 100}},
                                training::average{{.algorithm = algorithm_id::two_shot}});
  training::optimizer descent(some.parameters, rule);
  for (int step = 0; step < course.steps; ++step) {
    auto const add = [&](int pass) {
      for (std::size_t i = 0; i < model.size(); ++i) {
        for (std::size_t k = 0; k < some.parameters[i].size(); ++k)
          model.gradient(i)[k] += some.gradient(comm.rank(), step, pass, i, k, some.parameters[i][k]);
        model.ready(i);
      }
    };
    model.zero();
    {
      auto const local = model.accumulate();
      for (int pass = 0; pass < course.local_passes; ++pass) add(pass);
    }
    add(course.local_passes);
    model.finish();
    descent.step(model);
  }
  return some.parameters;
}

// A backward pass that takes the units from the last to the first, and the parameters of a unit in an order of this rank's
// own; where units need not be gathered, all parameters.
template <class T, class Model>
void sharded_backward(layered_model<T> const& of, Model& model, int rank, int step, int pass, bool adds, bool by_unit,
                      std::mt19937& order, training_course const& course = {}) {
  auto const parameters = [&](std::size_t begin, std::size_t count) {
    std::vector<std::size_t> some(count);
    std::iota(some.begin(), some.end(), begin);
    std::ranges::shuffle(some, order);
    for (std::size_t const i : some) {
      if (!course.takes_part(rank, step, pass, i)) continue;
      std::span<T const> const x = model.parameter(i);
      std::span<T> const g = model.gradient(i);
      for (std::size_t k = 0; k < x.size(); ++k) g[k] = of.next(adds, g[k], of.gradient(rank, step, pass, i, k, x[k]));
      model.ready(i);
    }
  };
  if (!by_unit) return parameters(0, model.size());
  for (std::size_t u = 0; u < of.units.size(); ++u) auto const here = model.gather(u);  // forward
  for (std::size_t u = of.units.size(); u-- > 0;) {
    auto const here = model.gather(u);
    parameters(of.first_of(u), of.units[u]);
  }
}

template <class T, class Model>
void train_sharded(layered_model<T> const& some, Model& model, int rank, training::sharding_options const& options,
                   training_course const& course) {
  std::mt19937 order(static_cast<unsigned>(rank));
  for (int step = 0; step < course.steps; ++step) {
    if (course.local_passes > 0) model.zero();
    for (int pass = 0; pass < course.local_passes; ++pass) {
      auto const local = model.accumulate();
      sharded_backward(some, model, rank, step, pass, true, options.stage == 3, order, course);
    }
    for (int pass = 0; pass < course.reduced_passes; ++pass) {
      sharded_backward(some, model, rank, step, course.local_passes + pass, course.local_passes > 0, options.stage == 3,
                       order, course);
      if (course.reduced_passes > 1) model.finish();
    }
    model.step(course.scale);
  }
}

// All parameters, unit by unit.
template <class T, class Model>
std::vector<std::vector<T>> parameters_in(layered_model<T> const& some, Model& model) {
  std::vector<std::vector<T>> out;
  for (std::size_t u = 0; u < model.units(); ++u) {
    auto const here = model.gather(u);
    for (std::size_t i = some.first_of(u); i < some.first_of(u) + some.units[u]; ++i)
      out.emplace_back(model.parameter(i).begin(), model.parameter(i).end());
  }
  return out;
}

template <class T, class Comm, class Rule>
std::vector<std::vector<T>> sharded(Comm& comm, Rule const& rule, training::sharding_options options,
                                    training_course const& course = {}) {
  layered_model<T> some;
  options.units = some.units;
  if (comm.rank() != 0)  // all ranks start with the parameters of rank 0
    for (auto& p : some.parameters) std::ranges::fill(p, T{-1});
  training::sharded_data_parallel model(comm, some.parameters, rule, options);
  train_sharded(some, model, comm.rank(), options, course);
  expect(model.statistics().steps == static_cast<std::size_t>(course.steps * course.reduced_passes) &&
             model.statistics().bytes == model.statistics().steps * some.elements() * sizeof(T),
         "the statistics are wrong");
  return parameters_in(some, model);
}

// The same bits, whatever the stage, the buckets and the prefetch, and with a progress_thread, to which starts leave calls.
template <class T, class Comm, class Rule>
void check_sharded_bits(Comm& comm, Rule const& rule, training_course const& course) {
  auto const expected = unsharded<T>(comm, rule, course);
  for (int const stage : {1, 2, 3})
    for (std::size_t const n : {0u, 1u, 3u}) {
      training::sharding_options const options{.stage = stage,
                                               .buckets = {.bytes = 700 * (n + 1), .first_bytes = 100},
                                               .buffers = n + 1,
                                               .prefetch = n,
                                               .progress_thread = n == 1};
      expect(sharded<T>(comm, rule, options, course) == expected,
             "other bits in stage " + std::to_string(stage) + " with " + std::to_string(n));
    }
}
// The types of most other checks, so that few are compiled.
template <class Comm>
void check_sharded_adam(Comm& comm) {
  check_sharded_bits<float>(comm, training::adam{.rate = 0.01, .weight_decay = 0.1}, {.steps = 3, .local_passes = 1});
}
template <class Comm>
void check_all_sharded_bits(Comm& comm) {
  check_sharded_adam(comm);
  check_sharded_bits<double>(comm, training::momentum{.rate = 0.1, .nesterov = true}, {});
}

// Several passes that are each reduced: their means add up, so only the last bits differ from those of local sums; and
// gradients that are scaled down to a norm.
template <class Comm>
void check_reduced_passes(Comm& comm) {
  training::momentum const rule{.rate = 0.1};
  auto const expected = unsharded<double>(comm, rule, {.local_passes = 2});
  auto const all = sharded<double>(comm, rule, {.stage = 2}, {.reduced_passes = 3});
  for (std::size_t i = 0; i < all.size(); ++i)
    for (std::size_t k = 0; k < all[i].size(); ++k)
      expect(std::abs(all[i][k] - expected[i][k]) < 1e-12, "the means of several passes do not add up");
  expect(all == sharded<double>(comm, rule, {.stage = 3}, {.reduced_passes = 3}), "stage 3 has other bits");

  layered_model<double> some;
  training::sharded_data_parallel model(comm, some.parameters, training::sgd{.rate = 1}, {.stage = 2});
  std::mt19937 order(0);
  double squares = 0;
  for (std::size_t i = 0; i < model.size(); ++i)
    for (std::size_t k = 0; k < some.parameters[i].size(); ++k) {
      double mean = 0;
      for (int r = 0; r < comm.size(); ++r) mean += some.gradient(r, 0, 0, i, k, some.parameters[i][k]) / comm.size();
      squares += mean * mean;
    }
  // A step that is skipped because gradients have overflowed.
  for (std::size_t i = model.size(); i-- > 0;) {
    std::ranges::fill(model.gradient(i), std::numeric_limits<double>::infinity());
    model.ready(i);
  }
  model.finish();
  expect(!std::isfinite(model.gradient_norm()), "a gradient that is infinite has a finite norm");
  model.step(0);
  expect(model.optimizer().steps() == 0, "a skipped step counts");

  sharded_backward(some, model, comm.rank(), 0, 0, false, false, order);
  model.finish();
  double const norm = model.gradient_norm();
  expect(std::abs(norm - std::sqrt(squares)) < 1e-9 * norm, "the norm is wrong");
  model.step(1 / norm);
  double moved = 0;
  for (std::size_t i = 0; i < model.size(); ++i)
    for (std::size_t k = 0; k < some.parameters[i].size(); ++k)
      moved += std::pow(model.parameter(i)[k] - some.parameters[i][k], 2);
  expect(std::abs(std::sqrt(moved) - 1) < 1e-9, "gradients were not scaled");
}

// Gradients that travel as bfloat16: each contribution is rounded once, and so is the mean.
template <class Comm>
void check_sharded_cast(Comm& comm) {
  std::vector<std::vector<float>> parameters(2, std::vector<float>(100));
  training::sharded_data_parallel model(comm, parameters, training::sgd{.rate = 1}, {}, training::cast_to<bfloat16>{});
  auto const value = [](int rank, std::size_t k) {
    return 1 + static_cast<float>(rank * 37 + static_cast<int>(k)) / 512;
  };
  for (std::size_t i = 0; i < 2; ++i) {
    for (std::size_t k = 0; k < 100; ++k) model.gradient(i)[k] = value(comm.rank(), k);
    model.ready(i);
  }
  model.step();
  for (std::size_t k = 0; k < 100; ++k) {
    float sum_of_all = 0;
    for (int r = 0; r < comm.size(); ++r) sum_of_all += static_cast<float>(bfloat16(value(r, k)));
    float const expected =
        comm.size() == 1 ? value(0, k) : static_cast<float>(bfloat16(sum_of_all / static_cast<float>(comm.size())));
    expect(model.parameter(1)[k] == -expected, "a gradient was rounded in another way");
  }
  expect(model.statistics().message_bytes == 2 * 100 * sizeof(bfloat16), "the bytes of messages are wrong");
}

// Gradients that are accumulated after a pass that has been reduced belong to the step, too; and during a pass there is no
// norm.
template <class Comm>
void check_accumulation_after_a_pass(Comm& comm) {
  std::vector<std::vector<float>> parameters(3, std::vector<float>(10));
  for (int const stage : {2, 3}) {
    training::sharded_data_parallel model(comm, parameters, training::sgd{.rate = 1}, {.stage = stage});
    auto const backward = [&](float value) {
      for (std::size_t i = 3; i-- > 0;) {
        std::ranges::fill(model.gradient(i), value);
        model.ready(i);
      }
    };
    backward(1);
    model.finish();
    {
      auto const local = model.accumulate();
      backward(2);
    }
    error const too_early = error_of([&] { return model.gradient_norm(); });
    expect_error(too_early, error_code::bad_argument,
                 "gradient_norm() was called before finish(), so some gradients may not be means yet");
    expect(too_early.rank() == comm.rank(), "the error names another rank");
    model.step();
    for (std::size_t i = 0; i < 3; ++i) {
      auto const here = model.gather(i);
      expect(std::ranges::count(model.parameter(i), -3.0f) == 10, "a pass is lost");
    }
  }
}

// Any number of units may be asked for ahead, also if they follow each other in a cycle.
template <class Comm>
void check_endless_prefetch(Comm& comm) {
  std::vector<std::vector<float>> parameters{{1, 2, 3}, {4, 5}};
  training::sharded_data_parallel model(comm, parameters, training::sgd{}, {.stage = 3, .prefetch = ~std::size_t{0}});
  for (std::size_t turn = 0; turn < 8; ++turn) {
    auto const here = model.gather(turn % 2);
    expect(std::ranges::equal(model.parameter(turn % 2), parameters[turn % 2]), "a unit has other values");
  }
}

// What a rank owns, and the state that belongs to it, continue a training with the same bits, also in another stage.
template <class T, class Comm>
void check_checkpoint(Comm& comm) {
  training::adam const rule{.rate = 0.01};
  layered_model<T> some;
  auto const saved_by = [&](int stage) {
    training::sharding_options const options{.stage = stage, .units = some.units};
    training::sharded_data_parallel model(comm, some.parameters, rule, options);
    train_sharded(some, model, comm.rank(), options, {.steps = 2});
    std::vector<std::vector<std::vector<training::master_of<T>>>> whole(3);  // parameters, and both arrays of state
    for (std::size_t k = 0; k < 3; ++k)
      for (auto const& p : some.parameters) whole[k].emplace_back(p.size());
    for (auto const& part : model.shard()) {
      auto const at = static_cast<std::ptrdiff_t>(part.elements.begin);
      std::ranges::copy(part.values, whole[0][part.parameter].begin() + at);
      for (std::size_t k = 0; k < 2; ++k) std::ranges::copy(part.state[k], whole[k + 1][part.parameter].begin() + at);
    }
    for (auto& arrays : whole)
      for (auto& values : arrays) all_reduce(comm, values);  // what others own is zero
    return whole;
  };
  auto const restored_by = [&](int stage, auto const& saved) {
    training::sharding_options const options{.stage = stage, .units = some.units};
    auto zeros = some.parameters;
    for (auto& p : zeros) std::ranges::fill(p, T{});
    training::sharded_data_parallel model(comm, zeros, rule, options);
    for (auto const& part : model.shard()) {
      auto const elements_of = [&](std::size_t k) {
        return std::span(saved[k][part.parameter]).subspan(part.elements.begin, part.elements.count);
      };
      std::ranges::copy(elements_of(0), part.values.begin());
      for (std::size_t k = 0; k < 2; ++k) std::ranges::copy(elements_of(k + 1), part.state[k].begin());
    }
    model.optimizer().steps() = 2;
    model.share();
    train_sharded(some, model, comm.rank(), options, {.steps = 1});
    return parameters_in(some, model);
  };
  auto const saved = saved_by(2);
  expect(saved == saved_by(3), "the shards of two stages differ");
  auto const next = restored_by(1, saved);
  expect(next == restored_by(3, saved), "training continues in another way");
  training::sharding_options const options{.stage = 1, .units = some.units};
  training::sharded_data_parallel model(comm, some.parameters, rule, options);
  train_sharded(some, model, comm.rank(), options, {.steps = 2});
  train_sharded(some, model, comm.rank(), options, {.steps = 1});
  expect(next == parameters_in(some, model), "training continues in another way than without an end");
}

template <class Comm>
void check_sharded_misuse(Comm& comm) {
  std::vector<float> a(10), b(20), c(30);
  std::vector<training::parameter<float>> const parameters{{a, "a"}, {b, ""}, {c, "c"}};
  auto const refused = [&](auto&& f, std::string const& words) {
    expect_error(error_of([&] { return f(), 0; }), error_code::bad_argument, words);
  };
  auto const made = [&](training::sharding_options const& options) {
    training::sharded_data_parallel const model(comm, parameters, training::adam{}, options);
  };
  refused([&] { made({.stage = 0}); }, "sharding_options::stage is 0");
  refused([&] { made({.stage = 4}); }, "sharding_options::stage is 4");
  refused([&] { made({.units = {1, 1}}); }, "the units have 2 parameters together, but the model has 3");
  refused([&] { made({.buffers = 0}); }, "buffers is 0");
  refused([&] { training::sharded_data_parallel const other(comm, parameters, training::adam{.beta2 = 1}); },
          "adam::beta2 is 1");

  std::vector<training::parameter<float>> const tied{
      {c, "c"}, {std::span<float>(), "none"}, {a, "a"}, {std::span(c).subspan(29), "tied"}};
  refused([&] { training::sharded_data_parallel const other(comm, tied, training::adam{}); },
          "parameter 0 (c) and parameter 3 (tied) share memory");

  training::sharded_data_parallel model(comm, parameters, training::adam{}, {.stage = 3, .units = {1, 2}});
  refused([&] { std::ignore = model.parameter(0); }, "parameter 0 (a) was asked for, but unit 0, to which it belongs");
  refused([&] { auto const here = model.gather(2); }, "there is no unit 2, only 2 units");
  {
    auto const here = model.gather(1);
    refused([&] { std::ignore = model.parameter(0); }, "parameter 0 (a) was asked for");
    std::ignore = model.parameter(2);
    refused([&] { model.step(); }, "step() was called while unit 1 was gathered");
  }
  refused([&] { std::ignore = model.parameter(2); }, "parameter 2 (c) was asked for, but unit 1");
  refused([&] { std::ignore = model.gradient(3); }, "there is no parameter 3, only 3 parameters");
  refused([&] { model.ready(2); }, "the gradient of parameter 2 (c) was reported ready, but never asked for");
  std::ignore = model.gradient(2);
  model.ready(2);
  refused([&] { model.ready(2); }, "the gradient of parameter 2 (c) was reported ready twice");
  refused([&] { model.zero(); }, "zero() was called when gradients had already been");
  refused([&] { model.share(); }, "share() was called when gradients had already been");
  refused([&] { model.step(); },
          "step() was called, but no gradient was reported ready of parameter 0 (a), parameter 1 [");
  std::ignore = model.gradient(1);
  model.ready(1);
  refused([&] { std::ignore = model.gradient(1); }, "the gradient of parameter 1 was asked for after it had been sent");
  std::ignore = model.gradient(0);
  model.ready(0);
  refused([&] { model.step(std::nan("")); }, "a step is to multiply gradients by nan");
  model.optimizer().rule().rate = std::nan("");
  refused([&] { model.step(); }, "adam::rate is nan");
  model.optimizer().rule().rate = 1e-3;
  model.step();
  {
    auto const local = model.accumulate();
    refused([&] { model.finish(); }, "finish() was called while gradients are accumulated");
  }

  training::sharded_data_parallel whole(comm, parameters, training::adam{}, {.stage = 1});
  for (std::size_t i = 0; i < 3; ++i) whole.ready(i);
  whole.finish();
  refused([&] { whole.ready(0); }, "a second backward pass was begun before the step");
  refused([&] { whole.gradient(0); }, "a second backward pass was begun before the step");
  refused([&] { whole.zero(); }, "a second backward pass was begun before the step");
  whole.step();
  for (std::size_t i = 0; i < 3; ++i) whole.ready(i);
  whole.step();
}

// The norm of the means, whichever function is asked for it.
template <class Comm>
void check_norms_of_shards(Comm& comm) {
  std::vector<std::vector<float>> parameters{std::vector<float>(300), std::vector<float>(50)};
  for (int const stage : {1, 2, 3}) {
    training::sharded_data_parallel model(comm, parameters, training::sgd{}, {.stage = stage});
    for (std::size_t i = 2; i-- > 0;) {
      std::ranges::fill(model.gradient(i), static_cast<float>(comm.rank()));
      model.ready(i);
    }
    model.finish();
    double const mean = 0.5 * (comm.size() - 1);
    auto const near = [&](double norm, double elements) { return std::abs(norm - mean * std::sqrt(elements)) < 1e-5; };
    auto const counts = [](std::size_t i) { return i == 1; };
    auto alone = comm.split(comm.rank()).value();
    expect(near(model.gradient_norm(), 350) && near(training::gradient_norm(model), 350) &&
               near(training::gradient_norm(model, alone, counts), 50),
           "another norm in stage " + std::to_string(stage));
  }
}

// A model without parameters, as that of a stage of a pipeline may be, and one whose parameters are empty. Their steps count.
template <class Comm>
void check_empty_shards(Comm& comm) {
  for (int const stage : {1, 2, 3})
    for (std::size_t const n : {0u, 2u}) {
      std::vector<std::vector<float>> parameters(n);
      training::sharded_data_parallel model(comm, parameters, training::adam{}, {.stage = stage});
      for (int step = 0; step < 3; ++step) {
        for (std::size_t i = n; i-- > 0;) {
          auto const here = model.gather(i);
          expect(model.parameter(i).empty() && model.gradient(i).empty(), "an empty parameter has elements");
          model.ready(i);
        }
        model.step(step == 1 ? 0 : 1);
      }
      expect(model.optimizer().steps() == 2, "another number of steps of an empty model");
      expect(model.gradient_norm() == 0 && model.shard().empty(), "an empty model has elements");
    }
}

// Units of the same size, in another order on the last rank: the step fails before it changes anything.
template <class Comm>
void check_other_gathers(Comm& comm) {
  std::vector<std::vector<float>> parameters{std::vector<float>(100, 1.0f), std::vector<float>(100, 2.0f)};
  training::sharded_data_parallel model(comm, parameters, training::sgd{}, {.stage = 3});
  auto const step = [&](bool differs) {
    for (std::size_t const u : {0u, 1u}) auto const here = model.gather(differs ? 1 - u : u);
    for (std::size_t u = 2; u-- > 0;) {
      std::ranges::fill(model.gradient(u), 1.0f);
      model.ready(u);
    }
    model.step();
  };
  step(false);
  step(false);
  std::vector<float> before;
  for (auto const& part : model.shard()) before.insert(before.end(), part.values.begin(), part.values.end());
  error const thrown = error_of([&] { return step(comm.rank() == comm.size() - 1), 0; });
  expect(thrown.code() == error_code::mismatch || thrown.code() == error_code::revoked, "an error of another kind");
  expect_error(thrown, thrown.code(), "ranks have gathered different units, or in different orders");
  std::vector<float> after;
  for (auto const& part : model.shard()) after.insert(after.end(), part.values.begin(), part.values.end());
  expect(before == after, "a step with wrong parameters has changed some");
}

// Another scale on the last rank, in stage 3: the step fails before it changes anything.
template <class Comm>
void check_other_scales(Comm& comm, double other) {
  std::vector<std::vector<float>> parameters{std::vector<float>(100, 1.0f)};
  training::sharded_data_parallel model(comm, parameters, training::sgd{}, {.stage = 3});
  auto const step = [&](double scale) {
    std::ranges::fill(model.gradient(0), 1.0f);
    model.ready(0);
    model.step(scale);
  };
  step(0.5);
  step(comm.rank() == 0 ? 0.0 : -0.0);
  std::vector<float> before;
  for (auto const& part : model.shard()) before.insert(before.end(), part.values.begin(), part.values.end());
  error const thrown = error_of([&] { return step(comm.rank() == comm.size() - 1 ? other : 1), 0; });
  expect(thrown.code() == error_code::mismatch || thrown.code() == error_code::revoked, "an error of another kind");
  expect_error(thrown, thrown.code(), "ranks have passed different values of `scale` to step()");
  std::vector<float> after;
  for (auto const& part : model.shard()) after.insert(after.end(), part.values.begin(), part.values.end());
  expect(before == after, "a step with different scales has changed some parameters");
}

// A step that is refused on one rank changes nothing there, so that rank still has what all have gathered ahead.
template <class Comm>
void check_refused_step(Comm& comm) {
  std::vector<std::vector<float>> parameters{std::vector<float>(8, 1.0f), std::vector<float>(8, 2.0f),
                                             std::vector<float>(8, 3.0f)};
  training::sharded_data_parallel model(comm, parameters, training::sgd{.rate = 0}, {.stage = 3});
  auto const gathered = [&](std::size_t u) {
    auto const here = model.gather(u);
    expect(std::ranges::equal(model.parameter(u), parameters[u]), "a unit has other values");
  };
  for (int step = 0; step < 3; ++step) {
    for (std::size_t u = 0; u < 3; ++u) gathered(u);
    for (std::size_t u = 3; u-- > 0;) {
      gathered(u);
      std::ranges::fill(model.gradient(u), 1.0f);
      model.ready(u);
      if (u > 0 && comm.rank() == comm.size() - 1)
        expect_error(error_of([&] { return model.step(), 0; }), error_code::bad_argument,
                     "step() was called, but no gradient was reported ready of parameter 0");
    }
    model.step();
  }
}

// Units of different sizes: the error names the lines of the program, not those of the library.
template <class Comm>
void check_place_of_gathers(Comm& comm) {
  std::vector<std::vector<float>> parameters{std::vector<float>(100), std::vector<float>(50)};
  bool const differs = comm.rank() == comm.size() - 1;
  error const thrown = error_of([&] {  // a rank may still be in the constructor when another has failed
    training::sharded_data_parallel model(comm, parameters, training::sgd{}, {.stage = 3});
    for (std::size_t const u : {0u, 1u}) auto const here = model.gather(differs ? 1 - u : u);
    return 0;
  });
  expect(thrown.code() == error_code::mismatch || thrown.code() == error_code::revoked, "an error of another kind");
  expect_error(thrown, thrown.code(), "all_gather_v of float");
  expect(contains(thrown, "sharded/sharded.hpp:") && !contains(thrown, "sharded_parameters.hpp"), thrown.what());
}

// Memory as the contract says, for layers whose parts are equal on all ranks up to a few elements.
template <class Comm>
void check_memory(Comm& comm) {
  constexpr std::size_t layers = 6, of_layer = 840 * 16;  // a multiple of what up to 8 ranks divide
  std::vector<std::vector<float>> parameters(layers, std::vector<float>(of_layer));
  std::size_t const layer = of_layer * sizeof(float), n = layers * layer, p = static_cast<std::size_t>(comm.size());
  for (int const stage : {1, 2, 3}) {
    training::sharded_data_parallel model(comm, parameters, training::adam{},
                                          {.stage = stage, .buckets = {.bytes = layer, .first_bytes = layer}});
    for (int step = 0; step < 3; ++step) {
      for (std::size_t u = 0; u < layers; ++u) auto const here = model.gather(u);
      for (std::size_t u = layers; u-- > 0;) {
        auto const here = model.gather(u);
        std::ranges::fill(model.gradient(u), 1.0f);
        model.ready(u);
        auto const now = model.memory().now;
        expect(now.gathered <= (stage == 3 ? 2 * layer : 0), "more than two units are gathered");
        expect(now.gathered >= (stage == 3 ? layer : 0), "a unit that is gathered is not counted");
      }
      model.step();
    }
    auto const [now, peak] = model.memory();
    auto const has = [&](training::memory_use const& use, std::size_t gathered, std::size_t buckets) {
      return use.parameters == (stage == 3 ? n / p : n) && use.gathered == (stage == 3 ? gathered : 0) &&
             use.gradients == (stage == 1 ? n : n / p + buckets) && use.state == 2 * n / p &&
             use.total() == use.parameters + use.gathered + use.gradients + use.state;
    };
    std::string const in_stage = " in stage " + std::to_string(stage);
    expect(has(now, 0, 0), "more memory is in use after a step" + in_stage);
    // One bucket is enough where reductions end at once.
    expect(has(peak, 2 * layer, layer) || has(peak, 2 * layer, 2 * layer), "another peak" + in_stage);
    // From the second step on, the last unit of the forward pass is kept for the backward pass.
    expect(stage < 3 || model.statistics().gathers == 3 * (2 * layers - 1) + 1, "another number of gathers");
  }
}

// A model whose values rank 0 draws when they are needed is the one whose values all have, in less memory.
template <class T, class Comm>
void check_deferred(Comm& comm) {
  layered_model<T> const some;
  for (int const stage : {1, 2, 3}) {
    training::sharding_options const options{
        .stage = stage, .units = some.units, .buckets = {.bytes = 700, .first_bytes = 100}};
    training::deferred_model<T> deferred;
    for (auto const& p : some.parameters) deferred.parameters.push_back({{p.size()}});
    std::vector<std::size_t> filled;
    bool zero = true;
    deferred.fill = [&](std::size_t i, std::span<T> values) {
      filled.push_back(i);
      zero &= std::ranges::all_of(values, [](T x) { return x == T{}; });
      std::ranges::copy(some.parameters[i], values.begin());
    };
    training::momentum const rule{.rate = 0.1};
    training::sharded_data_parallel model(comm, deferred, rule, options);
    std::vector<std::size_t> in_order(comm.rank() == 0 ? some.parameters.size() : 0);
    std::iota(in_order.begin(), in_order.end(), std::size_t{0});
    expect(filled == in_order && zero, "rank 0 does not fill each parameter once, in their order, or others fill some");
    std::size_t largest = 0;  // elements of a unit
    for (auto const& unit : model.plan().buckets) largest = std::max(largest, unit.count);
    expect(model.memory().peak.gathered == (stage == 3 ? largest * sizeof(T) : 0), "more than a unit was whole");
    expect(parameters_in(some, model) == some.parameters, "other values than those that were filled in");
    train_sharded(some, model, comm.rank(), options, {});
    expect(parameters_in(some, model) == sharded<T>(comm, rule, options), "a deferred model is trained to other bits");

    deferred.fill = {};
    training::sharded_data_parallel empty(comm, deferred, rule, options);
    for (auto const& p : parameters_in(some, empty))
      expect(std::ranges::all_of(p, [](T x) { return x == T{}; }), "without a function, values are not zero");
  }
}

// Shapes that differ between ranks or are too large, and a function that throws.
template <class Comm>
void check_deferred_misuse(Comm& comm) {
  int const odd = comm.size() - 1;
  auto const made = [&](auto& on, training::deferred_model<float> const& model) {
    return training::sharded_data_parallel(on, model, training::sgd{}, {.stage = 3}).size();
  };
  if (odd > 0) {
    std::size_t const rows = comm.rank() == odd ? 5 : 4;
    expect_error(error_of([&] { return made(comm, {.parameters = {{{rows, 3}, "weights"}, {{}}}}); }),
                 error_code::mismatch,
                 "rank " + std::to_string(odd) +
                     " has parameter 0 (weights) of shape 5 x 3, but rank 0 has parameter 0 (weights) of shape 4 x 3");
  }
  std::size_t const large = std::size_t{1} << 33;
  expect_error(error_of([&] { return made(comm, {.parameters = {{{large, large}, "weights"}}}); }),
               error_code::bad_argument, "parameter 0 (weights) gives the model more elements than can be counted");
  std::vector<training::deferred_parameter> const many(64, {{large << 25}});
  expect_error(error_of([&] { return made(comm, {.parameters = many}); }), error_code::bad_argument,
               "parameter 1 gives the model more elements than can be counted");
  std::vector<training::deferred_parameter> const full{{{large << 25}}, {{(large << 25) - 1}}, {{}}};
  expect_error(error_of([&] { return made(comm, {.parameters = full}); }), error_code::bad_argument,
               "parameter 2 gives the model more elements than can be counted");
  training::deferred_model<float> const unreadable{.parameters = {{{4, 3}, "weights"}, {{}, "offset"}},
                                                   .fill = [](std::size_t i, std::span<float> values) {
                                                     if (i == 1 && values.size() == 1)
                                                       throw std::runtime_error("no such file");
                                                   }};
  auto own = comm.split(0).value();
  if (comm.rank() > 0) {
    return expect_error(error_of([&] { return made(own, unreadable); }), error_code::revoked,
                        "rank 0 has revoked the communicator: parameter 1 (offset) could not be filled: no such file");
  }
  std::string thrown;
  try {
    made(own, unreadable);
  } catch (std::runtime_error const& e) {
    thrown = e.what();
  }
  expect(thrown == "no such file", "the exception of the function is lost");
}

// Every rank throws the same sentence if one of them has another model or other options.
template <class Comm>
void check_sharded_mismatch(Comm& comm) {
  int const odd = comm.size() - 1;
  bool const differs = comm.rank() == odd;
  std::string const rank = "rank " + std::to_string(odd);
  auto const made = [&](std::size_t n, training::sharding_options const& options) {
    std::vector<std::vector<float>> const parameters{std::vector<float>(5), std::vector<float>(n)};
    return error_of([&, p = parameters]() mutable {
      return training::sharded_data_parallel(comm, p, training::adam{}, options).size();
    });
  };
  expect_error(made(differs ? 7 : 8, {}), error_code::mismatch,
               rank + " has parameter 1 of shape 7, but rank 0 has parameter 1 of shape 8");
  expect_error(made(8, {.stage = differs ? 2 : 3}), error_code::mismatch, rank + " has stage = 2");
  expect_error(made(8, {.stage = differs ? 2 : 3}), error_code::mismatch, "pass the same options on every rank");
  expect_error(made(8, {.stage = 3, .units = {differs ? std::vector<std::size_t>{2} : std::vector<std::size_t>{}}}),
               error_code::mismatch, "units of 2 parameters");
  check_sharded_adam(comm);  // the communicator works as before
}

// A rank is gone: in stage 3 in the forward pass, and in the backward pass of any. The errors of the others name it.
template <class Comm, class Leave>
void check_sharded_loss(Comm& comm, int stage, bool forward, error_code expected, Leave const& leave) {
  std::vector<std::vector<float>> parameters(4, std::vector<float>(5000));
  training::sharded_data_parallel model(comm, parameters, training::adam{},
                                        {.stage = stage, .buckets = {.bytes = 1, .first_bytes = 1}});
  auto const step = [&](bool leaves) {
    for (std::size_t u = 0; u < 4; ++u) {
      if (leaves && forward && u == 2) return false;
      auto const here = model.gather(u);
    }
    for (std::size_t u = 4; u-- > 0;) {
      auto const here = model.gather(u);
      if (leaves && !forward && u == 1) return false;
      std::ranges::fill(model.gradient(u), 1.0f);
      model.ready(u);
    }
    model.step();
    return true;
  };
  if (comm.rank() == 1) {
    step(false);
    step(true);
    return leave();
  }
  // A slow rank may still be in the first step when another finds in the second that rank 1 is gone.
  error const thrown = error_of([&] { return step(false) && step(false); });
  expect_error(thrown, expected, "rank 1");
  expect(thrown.peer() == 1, "the error has another peer");
}

// The program throws on one rank while others wait for its gradients. Their errors name the lines of the program, not those of the
// library.
template <class Comm, class Hook>
void check_place_of_reductions(Comm& comm, Hook const& hook) {
  std::vector<std::vector<float>> parameters(2, std::vector<float>(100));
  auto another = comm.split(0).value();
  try {
    training::sharded_data_parallel model(comm, parameters, training::sgd{}, {.units = {1, 1}}, hook);
    barrier(another);  // no rank fails while others still make the model
    for (std::size_t const i : {1u, 0u}) {
      std::ranges::fill(model.gradient(i), 1.0f);
      model.ready(i);
      if (comm.rank() == 0) throw std::runtime_error("the program has failed");
    }
    model.step();
    expect(false, "nothing was thrown");
  } catch (error const& e) {
    expect_error(e, error_code::revoked, "the model that it trains is destroyed in a step");
    expect(contains(e, "sharded/sharded.hpp:") && !contains(e, "tutti/training/"), e.what());
  } catch (std::runtime_error const&) {
    expect(comm.rank() == 0, "an exception on another rank");
  }
}

// A hook that throws on one rank ends the step on all.
template <class Comm>
void check_throwing_sharded_hook(Comm& comm, int stage) {
  std::vector<std::vector<float>> parameters(3, std::vector<float>(100));
  int const odd = comm.size() - 1;
  auto const hook = [odd](training::sharded_bucket<float> const& some, Comm& on) {
    if (some.index == 1 && on.rank() == odd) throw std::runtime_error("no more memory");
    return training::average_shards{}(some, on);
  };
  // A slow rank may still be making the model, or be waiting for memory, when the communicator is revoked.
  auto const step = [&] {
    training::sharded_data_parallel model(comm, parameters, training::adam{},
                                          {.stage = stage, .buckets = {.bytes = 1, .first_bytes = 1}}, hook);
    for (std::size_t i = 0; i < 3; ++i) {
      std::ranges::fill(model.gradient(i), 1.0f);
      model.ready(i);
    }
    model.step();
    return 0;
  };
  if (comm.rank() != odd) {
    expect_error(error_of(step), error_code::revoked, "a step of training has failed there: no more memory");
    return;
  }
  bool thrown = false;
  try {
    step();
  } catch (std::runtime_error const& e) {
    thrown = std::string(e.what()).find("no more memory") != std::string::npos;
  }
  expect(thrown, "the exception of the hook is lost");
}

}  // namespace tutti::testing
