// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Gradients through a lossy codec: nothing is lost for good. Each function is what a rank does.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <functional>
#include <limits>
#include <numeric>
#include <random>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "support/expect.hpp"
#include "support/sanitized.hpp"
#include "training/hooks/means.hpp"
#include "tutti/training.hpp"
#include "tutti/tutti.hpp"

namespace tutti::testing {

// Four parameters in two buckets, which stay as they are.
inline training::data_parallel_options const two_buckets{.buckets = {.bytes = 4000, .first_bytes = 400},
                                                         .rebuild = false};
// In two or three buckets, which change in nearly every step; and after the first one, gradients move.
inline training::data_parallel_options const changing_buckets{
    .buckets = {.bytes = 4000, .first_bytes = 400, .last_bytes = 0},
    .adapt = training::adaptive_buckets{.least_bytes = 400, .most_bytes = 4000}};
inline std::vector<std::vector<float>> four_parameters() {
  return {std::vector<float>(700), std::vector<float>(0), std::vector<float>(200), std::vector<float>(100)};
}

inline training::data_parallel_options const unused_parameters{.buckets = two_buckets.buckets, .find_unused = true};

// Parameter 3 is used in every step, 2 in every other one, and 0 by half of the ranks at most.
inline bool uses(int rank, int step, std::size_t parameter) {
  return parameter == 3 || (step + (parameter == 0 ? rank : 0)) % 2 == 0;
}

// One step, with the gradient of each value by f(parameter, k), of the parameters that this rank uses.
template <class Model, class F>
void step_with(Model& model, F&& f, std::function<bool(std::size_t)> const& uses = {}) {
  for (std::size_t const i : {1u, 3u, 2u, 0u}) {
    if (uses && !uses(i)) continue;
    for (std::size_t k = 0; k < model.gradient(i).size(); ++k) model.gradient(i)[k] = f(i, k);
    model.ready(i);
  }
  if (uses) model.wait(2);
  model.finish();
}

// Of all gradients of all steps and ranks, every bit is in the means of used parameters or in a residual. They are small integers, so
// their sums are exact.
template <class Codec, class Comm>
void check_nothing_is_lost(Comm& comm, training::data_parallel_options const& options, Codec codec, float tolerance) {
  auto parameters = four_parameters();
  training::data_parallel model(comm, parameters, options, training::error_feedback(codec));
  std::set<std::size_t> numbers_of_buckets;
  std::mt19937 random(static_cast<unsigned>(comm.rank()));
  std::vector<std::vector<float>> given(4), sent(4);
  for (std::size_t i = 0; i < 4; ++i) given[i].resize(parameters[i].size()), sent[i].resize(parameters[i].size());
  for (int step = 0; step < 20; ++step) {
    numbers_of_buckets.insert(model.plan().buckets.size());
    step_with(
        model,
        [&](std::size_t i, std::size_t k) {
          float const g = static_cast<float>(random() % 64) - 20;
          given[i][k] += g;
          return g;
        },
        [&](std::size_t i) { return !options.find_unused || uses(comm.rank(), step, i); });
    expect_same_means(model, comm);
    for (std::size_t i = 0; i < 4; ++i)
      for (std::size_t k = 0; k < sent[i].size(); ++k)
        sent[i][k] += model.gradient(i)[k] * static_cast<float>(comm.size());
  }
  expect(numbers_of_buckets.size() == (options.adapt ? 2u : 1u), "the buckets do not change");
  auto residuals = model.hook().residuals();
  expect(residuals.size() == (comm.size() == 1 ? 0u : 4u), "a residual for each parameter");
  for (std::size_t i = 0; i < 4; ++i) {
    std::vector<float> residual(given[i].size());
    if (comm.size() > 1) residual = residuals[i];
    all_reduce(comm, given[i]);
    all_reduce(comm, residual);
    for (std::size_t k = 0; k < residual.size(); ++k)
      expect(std::abs(sent[i][k] + residual[k] - given[i][k]) <= tolerance, "a gradient is lost");
  }
}

// Gradient descent reaches the mean of the ranks' targets nearly as it does uncompressed.
template <class Codec, class Comm>
void check_convergence(Comm& comm, Codec codec, int steps) {
  auto parameters = four_parameters();
  training::data_parallel model(comm, parameters, two_buckets, training::error_feedback(codec));
  std::mt19937 random(static_cast<unsigned>(comm.rank()) + 9);
  std::normal_distribution<float> normal;
  auto target = four_parameters(), mean_target = target;
  for (std::size_t i = 0; i < 4; ++i) {
    for (float& x : target[i]) x = 3 + normal(random);
    mean_target[i] = target[i];
    all_reduce(comm, mean_target[i], mean{});
  }
  for (int step = 0; step < steps; ++step) {
    step_with(model, [&](std::size_t i, std::size_t k) { return parameters[i][k] - target[i][k]; });
    for (std::size_t i = 0; i < 4; ++i)
      for (std::size_t k = 0; k < parameters[i].size(); ++k) parameters[i][k] -= 0.02f * model.gradient(i)[k];
  }
  for (std::size_t i = 0; i < 4; ++i)
    for (std::size_t k = 0; k < parameters[i].size(); ++k)
      expect(std::abs(parameters[i][k] - mean_target[i][k]) < 0.5f, "training does not converge");
}

// A run that continues from a checkpoint has the bits of one that was not interrupted.
template <class Codec, class Comm>
void check_checkpoint(Comm& comm, Codec codec) {
  auto const gradient_of = [&](int step) {
    return [&comm, step](std::size_t i, std::size_t k) {
      return static_cast<float>((static_cast<std::size_t>(step + comm.rank()) * 7919 + i * 31 + k * 17) % 101) / 7 - 5;
    };
  };
  auto parameters = four_parameters();
  training::data_parallel whole(comm, parameters, two_buckets, training::error_feedback(codec));
  for (int step = 0; step < 4; ++step) step_with(whole, gradient_of(step));
  std::vector<std::vector<float>> saved;
  {
    training::data_parallel first(comm, parameters, two_buckets, training::error_feedback(codec));
    for (int step = 0; step < 2; ++step) step_with(first, gradient_of(step));
    saved = first.hook().residuals();
  }
  training::data_parallel second(comm, parameters, two_buckets, training::error_feedback(codec));
  second.hook().restore_residuals(saved);
  for (int step = 2; step < 4; ++step) step_with(second, gradient_of(step));
  for (std::size_t i = 0; i < 4; ++i)
    expect(std::ranges::equal(whole.gradient(i), second.gradient(i)), "the run that continues differs");
}

// Residuals of other parameters are refused. The communicator is revoked then: the first rank to find it does that, and others may
// see that first.
template <class Comm>
void check_other_residuals(Comm& comm) {
  error const thrown = error_of([&] {
    auto parameters = four_parameters();
    training::data_parallel model(comm, parameters, two_buckets, training::error_feedback(training::one_bit_signs{}));
    model.hook().restore_residuals({std::vector<float>(699)});
    step_with(model, [](std::size_t, std::size_t) { return 1.0f; });
    return 0;
  });
  if (thrown.code() == error_code::bad_argument)
    expect_error(thrown, error_code::bad_argument, "of parameter 0 has 699 values, but its gradient has 700");
  else expect_error(thrown, error_code::revoked, "a step of training has failed there");
}

// A gradient that overflows in one step leaves the later steps of its bucket as they are, though another parameter there is unused.
template <class Codec, class Comm>
void check_overflow(Comm& comm, Codec codec) {
  std::vector<std::vector<float>> parameters(2, std::vector<float>(8));
  training::data_parallel model(comm, parameters, {.find_unused = true}, training::error_feedback(codec));
  for (float const x : {std::numeric_limits<float>::infinity(), 1.0f}) {
    std::ranges::fill(model.gradient(0), x);
    model.ready(0);
    model.finish();
  }
  for (float const x : model.gradient(0)) expect(std::isfinite(x), "an overflow has outlived its step");
}

template <class Comm>
void check_error_feedback(Comm& comm) {
  check_overflow(comm, training::eight_bit_blocks{});
  check_overflow(comm, training::one_bit_signs{});
  for (auto const& options : {two_buckets, changing_buckets, unused_parameters}) {
    check_nothing_is_lost(comm, options, training::top_k{.share = 0.05}, 0);
    check_nothing_is_lost(comm, options, training::eight_bit_blocks{}, 1e-2f);
    check_nothing_is_lost(comm, options, training::one_bit_signs{}, 1e-2f);
  }
  if constexpr (!sanitized) {
    check_convergence(comm, training::top_k{.share = 0.2}, 600);
    check_convergence(comm, training::eight_bit_blocks{}, 250);
    check_convergence(comm, training::one_bit_signs{}, 600);
  }
  check_checkpoint(comm, training::top_k{.share = 0.1});
  check_checkpoint(comm, training::eight_bit_blocks{});
  check_checkpoint(comm, training::one_bit_signs{});
}

}  // namespace tutti::testing
