// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Gradients through a lossy codec: nothing is lost for good. Each function is what a rank does.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "support/expect.hpp"
#include "support/sanitized.hpp"
#include "tutti/training.hpp"
#include "tutti/tutti.hpp"

namespace tutti::testing {

// Three parameters in two buckets, which stay as they are.
inline training::data_parallel_options const two_buckets{.buckets = {.bytes = 4000, .first_bytes = 400},
                                                         .rebuild = false};
inline std::vector<std::vector<float>> three_parameters() {
  return {std::vector<float>(700), std::vector<float>(0), std::vector<float>(300)};
}

// One step, with the gradient of each value by f(parameter, k).
template <class Model, class F>
void step_with(Model& model, F&& f) {
  for (std::size_t i = model.size(); i-- > 0;) {
    for (std::size_t k = 0; k < model.gradient(i).size(); ++k) model.gradient(i)[k] = f(i, k);
    model.ready(i);
  }
  model.finish();
}

// Of all gradients of all steps and ranks, every bit is in the means or in a residual. They are small integers, so their
// sums are exact.
template <class Codec, class Comm>
void check_nothing_is_lost(Comm& comm, Codec codec, float tolerance) {
  auto parameters = three_parameters();
  training::data_parallel model(comm, parameters, two_buckets, training::error_feedback(codec));
  std::mt19937 random(static_cast<unsigned>(comm.rank()));
  std::vector<std::vector<float>> given(3), sent(3);
  for (std::size_t i = 0; i < 3; ++i) given[i].resize(parameters[i].size()), sent[i].resize(parameters[i].size());
  for (int step = 0; step < 20; ++step) {
    step_with(model, [&](std::size_t i, std::size_t k) {
      float const g = static_cast<float>(random() % 64) - 20;
      given[i][k] += g;
      return g;
    });
    for (std::size_t i = 0; i < 3; ++i) {
      std::vector<float> of_rank_0(model.gradient(i).begin(), model.gradient(i).end());
      broadcast(comm, of_rank_0, 0);
      expect(std::ranges::equal(of_rank_0, model.gradient(i)), "ranks have different means");
      for (std::size_t k = 0; k < sent[i].size(); ++k)
        sent[i][k] += model.gradient(i)[k] * static_cast<float>(comm.size());
    }
  }
  auto kept = model.hook().residuals();
  expect(kept.size() == (comm.size() == 1 ? 0u : 2u), "a residual for each bucket");
  for (std::size_t i = 0; i < 3; ++i) {
    auto const place = model.plan().places[i];
    std::size_t const begin = place.begin - model.plan().buckets[place.bucket].begin;
    std::vector<float> residual(given[i].size());
    if (comm.size() > 1 && !residual.empty())
      std::copy_n(kept[place.bucket].begin() + static_cast<std::ptrdiff_t>(begin), residual.size(), residual.begin());
    all_reduce(comm, given[i]);
    all_reduce(comm, residual);
    for (std::size_t k = 0; k < residual.size(); ++k)
      expect(std::abs(sent[i][k] + residual[k] - given[i][k]) <= tolerance, "a gradient is lost");
  }
}

// Gradient descent reaches the mean of the ranks' targets nearly as it does uncompressed.
template <class Codec, class Comm>
void check_convergence(Comm& comm, Codec codec, int steps) {
  auto parameters = three_parameters();
  training::data_parallel model(comm, parameters, two_buckets, training::error_feedback(codec));
  std::mt19937 random(static_cast<unsigned>(comm.rank()) + 9);
  std::normal_distribution<float> normal;
  auto target = three_parameters(), mean_target = target;
  for (std::size_t i = 0; i < 3; ++i) {
    for (float& x : target[i]) x = 3 + normal(random);
    mean_target[i] = target[i];
    all_reduce(comm, mean_target[i], mean{});
  }
  for (int step = 0; step < steps; ++step) {
    step_with(model, [&](std::size_t i, std::size_t k) { return parameters[i][k] - target[i][k]; });
    for (std::size_t i = 0; i < 3; ++i)
      for (std::size_t k = 0; k < parameters[i].size(); ++k) parameters[i][k] -= 0.02f * model.gradient(i)[k];
  }
  for (std::size_t i = 0; i < 3; ++i)
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
  auto parameters = three_parameters();
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
  for (std::size_t i = 0; i < 3; ++i)
    expect(std::ranges::equal(whole.gradient(i), second.gradient(i)), "the run that continues differs");
}

// Residuals of other buckets are refused. The communicator is revoked then: the first rank to find it does that, and others may
// see that first.
template <class Comm>
void check_other_residuals(Comm& comm) {
  error const thrown = error_of([&] {
    auto parameters = three_parameters();
    training::data_parallel model(comm, parameters, two_buckets, training::error_feedback(training::one_bit_signs{}));
    model.hook().restore_residuals({std::vector<float>(300), std::vector<float>(699)});
    step_with(model, [](std::size_t, std::size_t) { return 1.0f; });
    return 0;
  });
  if (thrown.code() == error_code::bad_argument)
    expect_error(thrown, error_code::bad_argument, "of bucket 1 has 699 values, but the bucket has 700");
  else expect_error(thrown, error_code::revoked, "a step of training has failed there");
}

template <class Comm>
void check_error_feedback(Comm& comm) {
  check_nothing_is_lost(comm, training::top_k{.share = 0.05}, 0);
  check_nothing_is_lost(comm, training::eight_bit_blocks{}, 1e-2f);
  check_nothing_is_lost(comm, training::one_bit_signs{}, 1e-2f);
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
