// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The code on elastic training in docs/training.md.
// labels: threads
#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <tutti/training.hpp>
#include <tutti/tutti.hpp>

#include "support/expect.hpp"
#include "support/temporary_folder.hpp"

using tutti::testing::expect;

TEST_CASE("the guide to elastic training") {
  tutti::testing::temporary_folder const at;
  std::string const folder = at.path() / "run";
  std::vector<float> weights(10), momentum;
  std::mt19937 random(1);
  tutti::extent mine;
  constexpr std::size_t shards = 4;
  int reports = 0;
  auto const print = [&](tutti::training::transition const&) { ++reports; };
  auto const gradient_of_shard = [&](std::size_t s, std::uint64_t number) {
    return std::vector<float>(weights.size(), 1 / static_cast<float>(s + number));
  };
  auto const take_step = [&](auto& comm, std::uint64_t number) {
    std::vector<tutti::binned<float>> sums(weights.size());
    tutti::extent const own = tutti::part(shards, comm.size(), comm.rank());
    for (std::size_t s = own.begin; s < own.begin + own.count; ++s) {
      std::vector<float> const gradient = gradient_of_shard(s, number);
      for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += gradient[i];
    }
    tutti::all_reduce(comm, sums);
    for (std::size_t i = 0; i < sums.size(); ++i) weights[i] += sums[i].value();
  };

  using namespace tutti::training;
  elastic_loop loop({.checkpoint_every = 100, .folder = folder, .report = print});  // instead of init()
  loop.run(
      1000,
      [&](auto& comm) {  // at the start, and whenever the ranks have changed
        mine = tutti::part(weights.size(), comm.size(), comm.rank());
        momentum.resize(mine.count);
        return std::vector{replicated("weights", weights), replicated("random", random), divided("momentum", momentum)};
      },
      [&](auto& comm, std::uint64_t number) { take_step(comm, number); });

  CHECK(loop.step() == 1000);
  CHECK(weights[0] > 10);
  CHECK(reports == 0);
  CHECK(loop.members() == std::vector{member{0, 0, member_state::healthy}});

  // Ranks that are there already; they begin with the checkpoint of step 1000.
  tutti::run_threads(3, [&](auto& comm) {
    std::vector<float> values(10), part;
    std::mt19937 engine;
    elastic_loop others(std::move(comm), {.checkpoint_every = 100, .folder = folder});
    others.run(
        1000,
        [&](auto& its) {
          part.resize(tutti::part(values.size(), its.size(), its.rank()).count);
          return std::vector{replicated("weights", values), replicated("random", engine), divided("momentum", part)};
        },
        [](auto&, std::uint64_t) {});
    expect(others.step() == 1000 && values == weights, "the run was not resumed");
  });
}

TEST_CASE("the guide to elastic training with compressed gradients") {
  tutti::run_threads(3, [](auto& comm) {
    constexpr std::size_t shards = 4;
    std::vector<float> weights(10);
    auto const gradient_of_shard = [&](std::size_t s, std::uint64_t) {
      std::vector<float> out(weights);
      for (std::size_t i = 0; i < out.size(); ++i) out[i] -= static_cast<float>(i * s);
      return out;
    };
    using namespace tutti::training;
    elastic_loop shrinking(std::move(comm));
    elastic_feedback compressed(shards, weights.size(), top_k{.share = 0.2});
    shrinking.run(
        20, [&](auto& its) { return std::vector{replicated("weights", weights), compressed.residuals(its)}; },
        [&](auto& its, std::uint64_t number) {
          std::vector<float> mean(weights.size());
          compressed.mean(its, mean, [&](std::size_t s, std::span<float> gradient) {
            std::ranges::copy(gradient_of_shard(s, number), gradient.begin());
          });
          for (std::size_t i = 0; i < mean.size(); ++i) weights[i] -= mean[i];
        });
    expect(weights[0] == 0 && weights[9] > 5, "nothing was learned");
  });
}
