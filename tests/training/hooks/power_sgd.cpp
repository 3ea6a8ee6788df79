// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Gradients as products of narrow matrices, over loopback and shm.
// labels: processes waits
#include "tutti/training/hooks/power_sgd.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <functional>
#include <limits>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "support/expect.hpp"
#include "support/sanitized.hpp"
#include "training/hooks/means.hpp"
#include "tutti/training.hpp"
#include "tutti/tutti.hpp"

using namespace tutti;
using namespace tutti::testing;
using training::power_sgd;

namespace {

// Matrices that are compressed (0, 2, 5), and parameters that are not: vectors, one that is too small, and an empty one.
struct low_rank_model {
  std::vector<std::vector<std::size_t>> shapes{{12, 30}, {40}, {8, 5, 9}, {2, 2}, {0, 5}, {20, 20}, {}};
  std::vector<std::vector<float>> values;
  std::vector<training::parameter<float>> parameters;

  low_rank_model() {
    for (std::size_t const n : {360u, 40u, 360u, 4u, 0u, 400u, 100u}) values.emplace_back(n);
    for (std::size_t i = 0; i < values.size(); ++i) parameters.push_back({values[i], "", shapes[i]});
  }
};

// First and second messages of products of rank 2, and what is not compressed.
constexpr std::size_t numbers_sent = 2 * (12 + 30 + 8 + 45 + 20 + 20) + 40 + 4 + 100;

training::data_parallel_options const kept_buckets{.buckets = {.bytes = 2000, .first_bytes = 600}, .rebuild = false};

// One step, with the gradient of each value by f(parameter, k), from the first parameter to the last of those that ranks use.
template <class Model, class F>
void low_rank_step(Model& model, F&& f, std::function<bool(std::size_t)> const& uses = {}) {
  for (std::size_t i = 0; i < model.size(); ++i) {
    if (uses && !uses(i)) continue;
    for (std::size_t k = 0; k < model.gradient(i).size(); ++k) model.gradient(i)[k] = f(i, k);
    model.ready(i);
  }
  model.finish();
}

// Over all steps, means and residuals add up to the gradients, also where a step leaves a matrix out; what is not
// compressed is exact. Gradients are small integers, so sums of them are exact.
template <class Comm>
void check_low_rank_loses_nothing(Comm& comm, training::data_parallel_options const& options) {
  low_rank_model some;
  training::data_parallel model(comm, some.parameters, options, power_sgd({.rank = 2}));
  std::mt19937 random(static_cast<unsigned>(comm.rank()));
  auto given = some.values, sent = some.values;
  int const steps = 10;
  for (int step = 0; step < steps; ++step) {
    low_rank_step(
        model,
        [&](std::size_t i, std::size_t k) {
          float const g = static_cast<float>(random() % 64) - 20;
          given[i][k] += g;
          return g;
        },
        [&](std::size_t i) { return !options.find_unused || i != 2 || step % 3 == 0; });
    expect_same_means(model, comm);
    for (std::size_t i = 0; i < model.size(); ++i)
      for (std::size_t k = 0; k < sent[i].size(); ++k)
        sent[i][k] += model.gradient(i)[k] * static_cast<float>(comm.size());
  }
  std::size_t const sent_bytes = comm.size() == 1 ? model.statistics().bytes : steps * 4 * numbers_sent;
  expect(model.statistics().message_bytes == sent_bytes || comm.size() == 1, "the bytes sent");
  for (std::size_t i = 0; i < model.size(); ++i) {
    bool const compressed = comm.size() > 1 && (i == 0 || i == 2 || i == 5);
    std::vector<float> residual(given[i].size());
    if (comm.size() > 1) {
      auto const& kept = model.hook().state().at(i);
      expect(kept.residual.empty() == !compressed, "which parameters are compressed");
      std::ranges::copy(kept.residual, residual.begin());
    }
    all_reduce(comm, given[i]);
    all_reduce(comm, residual);
    for (std::size_t k = 0; k < residual.size(); ++k)
      expect(std::abs(sent[i][k] + residual[k] - given[i][k]) <= (compressed ? 0.02f : 0.005f), "a gradient is lost");
  }
}

// What a rank keeps is no longer than what it had to send, and it sends all of a gradient whose rank is that of the products.
template <class Comm>
void check_low_rank_residuals(Comm& comm) {
  low_rank_model some;
  training::data_parallel model(comm, some.parameters, kept_buckets, power_sgd({.rank = 2}));
  std::mt19937 random(static_cast<unsigned>(comm.rank()));
  std::normal_distribution<float> normal;
  double had = 0, kept = 0;
  low_rank_step(model, [&](std::size_t i, std::size_t) {
    float const g = normal(random);
    had += i == 5 ? static_cast<double>(g) * static_cast<double>(g) : 0;
    return g;
  });
  for (float const x : model.hook().state().at(5).residual) kept += static_cast<double>(x) * static_cast<double>(x);
  expect(kept <= had * (1 + 1e-6), "a residual is longer than the gradient");

  training::data_parallel narrow(comm, some.parameters, kept_buckets, power_sgd({.rank = 2}));
  for (int step = 0; step < 3; ++step) {
    auto const of_rank = [&](int rank, std::size_t i, std::size_t k) {  // rows that are multiples of two vectors
      auto const row = static_cast<float>(k / (i == 2 ? 45 : 20)), column = static_cast<float>(k % (i == 2 ? 45 : 20));
      return (row - 3) * std::cos(column) +
             (static_cast<float>(step) - row) * column * 0.1f * static_cast<float>(rank + 1);
    };
    low_rank_step(narrow, [&](std::size_t i, std::size_t k) { return of_rank(comm.rank(), i, k); });
    for (std::size_t const i : {2u, 5u})
      for (std::size_t k = 0; k < some.values[i].size(); ++k) {
        float sum_of_all = 0;
        for (int r = 0; r < comm.size(); ++r) sum_of_all += of_rank(r, i, k);
        expect(std::abs(narrow.gradient(i)[k] - sum_of_all / static_cast<float>(comm.size())) < 0.01f,
               "a gradient of rank 2 is not sent by a product of rank 2");  // they are as large as 250
      }
  }
}

// Gradient descent reaches the mean of the ranks' targets.
template <class Comm>
void check_low_rank_convergence(Comm& comm) {
  low_rank_model some;
  training::data_parallel model(comm, some.parameters, kept_buckets, power_sgd({.rank = 2}));
  std::mt19937 random(static_cast<unsigned>(comm.rank()) + 9);
  std::normal_distribution<float> normal;
  auto target = some.values;
  for (auto& t : target)
    for (float& x : t) x = normal(random);
  auto mean_target = target;
  for (auto& t : mean_target) all_reduce(comm, t, mean{});
  for (int step = 0; step < 400; ++step) {
    low_rank_step(model, [&](std::size_t i, std::size_t k) { return some.values[i][k] - target[i][k]; });
    for (std::size_t i = 0; i < model.size(); ++i)
      for (std::size_t k = 0; k < some.values[i].size(); ++k) some.values[i][k] -= 0.05f * model.gradient(i)[k];
  }
  for (std::size_t i = 0; i < model.size(); ++i)
    for (std::size_t k = 0; k < some.values[i].size(); ++k)
      expect(std::abs(some.values[i][k] - mean_target[i][k]) < 0.5f, "training does not converge");
}

// A run that continues from a checkpoint has the bits of one that was not interrupted; another state is refused.
template <class Comm>
void check_low_rank_checkpoint(Comm& comm) {
  auto const gradient_of = [&](int step) {
    return [&comm, step](std::size_t i, std::size_t k) {
      return static_cast<float>((static_cast<std::size_t>(step + comm.rank()) * 7919 + i * 31 + k * 17) % 101) / 7 - 5;
    };
  };
  low_rank_model some;
  training::data_parallel whole(comm, some.parameters, kept_buckets, power_sgd({.rank = 2}));
  training::data_parallel first(comm, some.parameters, kept_buckets, power_sgd({.rank = 2}));
  training::data_parallel second(comm, some.parameters, kept_buckets, power_sgd({.rank = 2}));
  for (int step = 0; step < 4; ++step) low_rank_step(whole, gradient_of(step));
  for (int step = 0; step < 2; ++step) low_rank_step(first, gradient_of(step));
  second.hook().restore(first.hook().state());
  for (int step = 2; step < 4; ++step) low_rank_step(second, gradient_of(step));
  expect(whole.hook().state() == second.hook().state(), "the state differs");
  for (std::size_t i = 0; i < whole.size(); ++i)
    expect(std::ranges::equal(whole.gradient(i), second.gradient(i)), "the run that continues differs");
  if (comm.size() == 1) return;
  error const thrown = error_of([&] {
    training::data_parallel other(comm, some.parameters, kept_buckets, power_sgd({.rank = 1}));
    other.hook().restore(first.hook().state());
    low_rank_step(other, gradient_of(0));
    return 0;
  });
  if (thrown.code() == error_code::bad_argument)
    expect_error(thrown, error_code::bad_argument,
                 "the state of parameter 5 has a residual of 400 values and a q of 40, not of 400 and 20");
  else expect_error(thrown, error_code::revoked, "a step of training has failed there");
}

// A NaN on one rank makes a mean on all that is none, and the steps that follow are as good as ever.
template <class Comm>
void check_low_rank_nan(Comm& comm) {
  low_rank_model some;
  training::data_parallel model(comm, some.parameters, kept_buckets, power_sgd({.rank = 2}));
  for (int step = 0; step < 3; ++step) {
    low_rank_step(model, [&](std::size_t, std::size_t k) {
      return step == 1 && k == 3 && comm.rank() == comm.size() - 1 ? std::numeric_limits<float>::quiet_NaN() : 1.0f;
    });
    for (std::size_t const i : {0u, 2u, 5u, 6u})
      expect(std::ranges::any_of(model.gradient(i), [](float x) { return std::isnan(x); }) == (step == 1),
             "a NaN goes unnoticed, or stays");
  }
  expect(std::abs(model.gradient(0)[7] - 1) < 1e-3f || comm.size() == 1, "a mean after a NaN");
}

// What overflows when it is taken back, of a parameter that no rank has used, does not stay.
template <class Comm>
void check_low_rank_overflow(Comm& comm) {
  low_rank_model some;
  training::data_parallel model(comm, some.parameters, {.find_unused = true}, power_sgd({.rank = 2}));
  std::vector<power_sgd::matrix_state> state(some.parameters.size());
  state[5] = {std::vector<float>(400, std::numeric_limits<float>::max()), std::vector<float>(40)};
  model.hook().restore(state);
  low_rank_step(model, [](std::size_t, std::size_t) { return 1.0f; }, [](std::size_t i) { return i != 5; });
  if (comm.size() > 1)
    expect(std::ranges::all_of(model.hook().state()[5].residual, [](float x) { return std::isfinite(x); }),
           "a residual is no number");
}

}  // namespace

TEST_CASE("products of narrow matrices lose nothing for good") {
  auto const check = [](auto& comm) {
    check_low_rank_loses_nothing(comm, kept_buckets);
    check_low_rank_loses_nothing(comm, {.buckets = {.bytes = 2000, .first_bytes = 600}, .concurrent = 2});
    check_low_rank_loses_nothing(comm, {.find_unused = true, .progress_thread = true});
    check_low_rank_nan(comm);
    check_low_rank_overflow(comm);
  };
  for (int const ranks : ranks_to_test({1, 2, 3, 4, 8})) {
    CAPTURE(ranks);
    CHECK_NOTHROW(run_threads(ranks, check));
  }
  CHECK_NOTHROW(run_local(3, check));
}

TEST_CASE("training by products of narrow matrices converges, and continues from a checkpoint") {
  for (int const ranks : {2, 3}) {
    CAPTURE(ranks);
    CHECK_NOTHROW(run_threads(ranks, [](auto& comm) { check_low_rank_residuals(comm); }));
    if constexpr (!sanitized) CHECK_NOTHROW(run_threads(ranks, [](auto& comm) { check_low_rank_convergence(comm); }));
    CHECK_NOTHROW(run_threads(ranks, [](auto& comm) { check_low_rank_checkpoint(comm); }));
  }
}

TEST_CASE("products without columns are refused") {
  expect_error(error_of([] { return power_sgd({.rank = 0}), 0; }), error_code::bad_argument,
               "power_sgd_options::rank is 0");
}
