// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Elastic training with compressed gradients: what compression has lost survives the loss of a rank, and is in checkpoints.
// labels: processes waits
#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "support/expect.hpp"
#include "support/forked_rank.hpp"
#include "support/sanitized.hpp"
#include "support/temporary_folder.hpp"
#include "training/elastic/compressed_toy.hpp"
#include "training/elastic/toy_job.hpp"

using namespace tutti;
using namespace tutti::testing;

namespace {

// Of three ranks, one is killed, and the others end with these weights.
template <class Means>
void check_compressed_loss(Means const& means, std::span<float const> right, toy_kill const& kill) {
  constexpr std::size_t size = compressed_task::size;
  shared_with_forks<float> ends(3 * size);
  std::string const name = toy_job::new_name();
  std::vector<pid_t> processes;
  for (int r = 0; r < 3; ++r)
    processes.push_back(fork_rank(name, r, 3, "60", [&] {
      compressed_toy toy(means);
      training::elastic_loop loop;
      loop.run(
          toy_steps, [&](auto& comm) { return toy.arrays(comm); },
          [&](auto& comm, std::uint64_t number) {
            toy.step(comm, number, [&](toy_training::place at) {
              if (r == kill.process && number == kill.step && at == kill.where) ::raise(SIGKILL);
            });
          });
      std::ranges::copy(toy.weights(), ends.all().subspan(static_cast<std::size_t>(r) * size).begin());
    }));
  std::string const wrong = end_of_ranks(processes, std::chrono::seconds(100), [&](int r, int status) {
    return r == kill.process ? was_killed(status) : status == 0;
  });
  CHECK_MESSAGE(wrong.empty(), wrong);
  for (int r = 0; r < 3; ++r)
    if (r != kill.process)
      CHECK(std::ranges::equal(ends.all().subspan(static_cast<std::size_t>(r) * size, size), right));
}

}  // namespace

TEST_CASE("a run that has lost a rank has the bits of one that has not, with each codec") {
  using enum toy_training::place;
  for_each_compression(toy_steps, [](auto const& means, std::vector<float> const& right, char const* name) {
    CAPTURE(name);
    for (int const victim : {0, 1, 2})
      for (auto const at : {begin, computed, summed, end}) {
        if (sanitized && victim != 1) continue;
        CAPTURE(victim);
        CAPTURE(static_cast<int>(at));
        check_compressed_loss(means, right, {victim, 7, at});
      }
  });
}

TEST_CASE("a run that continues from a checkpoint on another number of ranks has the same bits, with each codec") {
  for_each_compression(toy_steps, [](auto const& means, std::vector<float> const& right, char const* name) {
    CAPTURE(name);
    temporary_folder const at;
    training::elastic_options const options{.checkpoint_every = 4, .folder = at.path() / "run"};
    std::uint64_t steps = 8;
    for (int const ranks : {3, 2, 1}) {
      CAPTURE(ranks);
      CHECK_NOTHROW(run_threads(ranks, [&](auto& comm) {
        auto const got = weights_of_loop(means, std::move(comm), steps, options);
        expect(steps < toy_steps || got == right, "the run that continues has other bits");
      }));
      steps = std::min(steps + 8, toy_steps);
    }
  });
}

TEST_CASE("without its residuals, a run has other bits") {
  for_each_compression(toy_steps, [](auto const& means, std::vector<float> const& right, char const* name) {
    CAPTURE(name);
    auto alone = means;
    std::vector<float> weights(compressed_task::size, 0.5f), mean(compressed_task::size);
    communicator<shm> comm(std::make_unique<shm>());
    for (std::uint64_t number = 1; number <= toy_steps; ++number) {
      std::ranges::fill(alone.residuals(comm).bytes, std::byte{0});
      alone.mean(comm, mean, [&](std::size_t shard, std::span<float> gradient) {
        for (std::size_t i = 0; i < mean.size(); ++i)
          gradient[i] += compressed_task::gradient(weights, shard, i, number);
      });
      for (std::size_t i = 0; i < mean.size(); ++i) weights[i] -= compressed_task::rate * mean[i];
    }
    CHECK(weights != right);
  });
}

TEST_CASE("elastic_power_sgd computes what power_sgd does with a rank for each shard, up to rounding") {
  using task = compressed_task;
  auto const right = weights_of_one_rank(power_sgd_of_shards(), 10);
  CHECK_NOTHROW(run_threads(static_cast<int>(task::shards), [&](auto& comm) {
    std::vector<float> weights(task::size, 0.5f);
    std::vector<training::parameter<float>> parameters;
    std::size_t begin = 0;
    for (auto const& shape : task::shapes()) {
      std::size_t const count = shape.size() == 1 ? shape[0] : shape[0] * shape[1];
      parameters.push_back({std::span(weights).subspan(begin, count), "", shape});
      begin += count;
    }
    training::data_parallel model(comm, parameters, {.rebuild = false}, training::power_sgd({.rank = 2}));
    for (std::uint64_t number = 1; number <= 10; ++number) {
      for (std::size_t p = 3; p-- > 0;) {
        auto const first = static_cast<std::size_t>(parameters[p].values.data() - weights.data());
        for (std::size_t i = 0; i < parameters[p].values.size(); ++i)
          model.gradient(p)[i] = task::gradient(weights, static_cast<std::size_t>(comm.rank()), first + i, number);
        model.ready(p);
      }
      model.finish();
      for (std::size_t p = 0; p < 3; ++p)
        for (std::size_t i = 0; i < parameters[p].values.size(); ++i)
          parameters[p].values[i] -= task::rate * model.gradient(p)[i];
    }
    for (std::size_t i = 0; i < task::size; ++i)
      expect(std::abs(weights[i] - right[i]) < 1e-4f, "elastic_power_sgd computes something else");
  }));
}

TEST_CASE("a gradient that overflows in one step leaves the later steps as they are, with each codec") {
  for_each_compression(0, [](auto const& means, std::vector<float> const&, char const* name) {
    CAPTURE(name);
    auto alone = means;
    std::vector<float> mean(compressed_task::size);
    communicator<shm> comm(std::make_unique<shm>());
    alone.residuals(comm);
    for (float const x : {std::numeric_limits<float>::infinity(), 1.0f}) {
      alone.mean(comm, mean, [&](std::size_t, std::span<float> gradient) { std::ranges::fill(gradient, x); });
      CHECK(std::ranges::all_of(mean, [](float y) { return std::isfinite(y); }) == std::isfinite(x));
    }
  });
}

TEST_CASE("both means over shards can be in one state under the names that they choose") {
  communicator<shm> comm(std::make_unique<shm>());
  auto feedback = feedback_of(training::one_bit_signs{});
  auto low_rank = power_sgd_of_shards();
  temporary_folder const at;
  training::checkpoints saved(at.path() / "run");
  std::vector const state{feedback.residuals(comm), low_rank.residuals(comm), low_rank.factors()};
  CHECK_NOTHROW(saved.save(comm, 1, state));
  auto const twice = std::vector{feedback.residuals(comm), feedback.residuals(comm)};
  CHECK_NOTHROW(expect_error(error_of([&] { return saved.save(comm, 2, twice), 0; }), error_code::bad_argument,
                             "an array of the state, \"residuals\", has the name of another"));
}

TEST_CASE("means over shards refuse what does not fit") {
  communicator<shm> comm(std::make_unique<shm>());
  std::vector<float> mean(compressed_task::size), small(3);
  auto const nothing = [](std::size_t, std::span<float>) {};
  auto means = feedback_of(training::one_bit_signs{});
  CHECK_NOTHROW(expect_error(error_of([&] { return means.mean(comm, mean, nothing), 0; }), error_code::bad_argument,
                             "the residuals are not those of the shards that this rank has now"));
  means.residuals(comm);
  CHECK_NOTHROW(expect_error(error_of([&] { return means.mean(comm, small, nothing), 0; }), error_code::bad_argument,
                             "the mean of gradients of 127 values does not fit into 3"));
  CHECK_NOTHROW(expect_error(error_of([&] { return training::elastic_power_sgd(0, {{3}}), 0; }),
                             error_code::bad_argument, "0 shards"));
  CHECK_NOTHROW(expect_error(error_of([&] { return training::elastic_power_sgd(2, {{3}}, {.rank = 0}), 0; }),
                             error_code::bad_argument, "power_sgd_options::rank is 0"));
}
