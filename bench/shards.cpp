// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What gathering units ahead gains in stage 3 of sharded training, and what memory it takes. Forward and backward passes are made up: they
// compute for a given time; on the core of a rank, the backward pass also fills each unit's gradient. All contenders take turns, in one process.
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <deque>
#include <string>
#include <thread>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "median.hpp"
#include "tutti/training.hpp"
#include "tutti/tutti.hpp"

namespace {

using clock_type = std::chrono::steady_clock;
using milliseconds = std::chrono::duration<double, std::milli>;
using model_type = tutti::training::sharded_data_parallel<float, tutti::shm, tutti::training::sgd>;

struct options {
  int ranks = 2;
  std::size_t layers = 16;
  std::size_t layer_bytes = std::size_t{4} << 20;
  int forward_us = 500, backward_us = 1000;
  std::vector<std::size_t> prefetch{0, 1, 2, 4};
  int rounds = 15, steps = 5;
  bool progress_thread = false, device = false;
};

struct contender {
  contender(std::size_t ahead, tutti::communicator<tutti::shm>& comm, std::vector<std::vector<float>>& parameters,
            options const& how)
      : prefetch(ahead),
        model(comm, parameters, tutti::training::sgd{.rate = 0.1},
              {.stage = 3, .prefetch = ahead, .progress_thread = how.progress_thread}) {}

  std::size_t prefetch;
  model_type model;
  std::vector<double> times{};  // ms of a step, in each round
};

void compute(int us, bool device) {
  auto const end = clock_type::now() + std::chrono::microseconds(us);
  if (device) std::this_thread::sleep_until(end);
  while (clock_type::now() < end) {
  }
}

void step(model_type& model, options const& how) {
  for (std::size_t u = 0; u < model.units(); ++u) {
    auto const here = model.gather(u);
    compute(how.forward_us, how.device);
  }
  for (std::size_t u = model.units(); u-- > 0;) {
    auto const here = model.gather(u);
    compute(how.backward_us, how.device);
    auto const gradient = model.gradient(u);
    if (!how.device) std::ranges::fill(gradient, 1.0f);
    model.ready(u);
  }
  model.step();
}

void measure(tutti::communicator<tutti::shm>& comm, options const& how) {
  std::deque<contender> all;
  {
    std::vector<std::vector<float>> parameters(how.layers, std::vector<float>(how.layer_bytes / sizeof(float)));
    for (std::size_t const ahead : how.prefetch) all.emplace_back(ahead, comm, parameters, how);
  }
  for (contender& c : all)
    for (int i = 0; i < 3; ++i) step(c.model, how);
  for (int round = 0; round < how.rounds; ++round)
    for (contender& c : all) {
      tutti::barrier(comm);
      auto const begin = clock_type::now();
      for (int i = 0; i < how.steps; ++i) step(c.model, how);
      double const mine = milliseconds(clock_type::now() - begin).count() / how.steps;
      c.times.push_back(tutti::all_reduce(comm, mine, tutti::max{}));
    }
  if (comm.rank() != 0) return;
  double const computing = static_cast<double>(how.layers) * (how.forward_us + how.backward_us) / 1000;
  fmt::print("{} ranks, {} units of {} MiB, {:.1f} ms of computing in a step\n\n", how.ranks, how.layers,
             static_cast<double>(how.layer_bytes) / (1 << 20), computing);
  fmt::print(
      "| prefetch | ms a step | min..max | not computing | gathered in time | MiB gathered at most | MiB in all |\n");
  fmt::print("|---:|---:|:---:|---:|---:|---:|---:|\n");
  for (contender const& c : all) {
    auto const [least, most] = std::ranges::minmax(c.times);
    auto const& seen = c.model.statistics();
    auto const peak = c.model.memory().peak;
    auto const mib = [](std::size_t bytes) { return static_cast<double>(bytes) / (1 << 20); };
    fmt::print("| {} | {:.1f} | {:.1f}..{:.1f} | {:.0f} % | {:.0f} % | {:.0f} | {:.0f} |\n", c.prefetch,
               median(c.times), least, most, 100 * (1 - computing / median(c.times)),
               100 * static_cast<double>(seen.gathered_ahead) / static_cast<double>(seen.gathers), mib(peak.gathered),
               mib(peak.total()));
  }
}

}  // namespace

int main(int argc, char** argv) {
  options how;
  CLI::App app{"What gathering units ahead gains in stage 3 of sharded training, and what memory it takes."};
  app.add_option("-n,--ranks", how.ranks, "ranks, which share memory")->check(CLI::PositiveNumber);
  app.add_option("--layers", how.layers, "number of units")->check(CLI::PositiveNumber);
  app.add_option("--layer-bytes", how.layer_bytes, "bytes of each")->transform(CLI::AsSizeValue(false));
  app.add_option("--forward-us", how.forward_us, "microseconds of a unit's forward pass")
      ->check(CLI::NonNegativeNumber);
  app.add_option("--backward-us", how.backward_us, "the same of its backward pass")->check(CLI::NonNegativeNumber);
  app.add_option("--prefetch", how.prefetch, "numbers of units that are gathered ahead")->delimiter(',');
  app.add_option("--rounds", how.rounds, "turns of each, of which the median counts")->check(CLI::PositiveNumber);
  app.add_option("--steps", how.steps, "steps of a turn")->check(CLI::PositiveNumber);
  app.add_flag("--device", how.device, "computed elsewhere, as by a device: the cores of the ranks are free");
  app.add_flag("--progress-thread", how.progress_thread, "a thread drives communication");
  CLI11_PARSE(app, argc, argv);
  tutti::run_local(how.ranks, [&](auto& comm) { measure(comm, how); });
}
