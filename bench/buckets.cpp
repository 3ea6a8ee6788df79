// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// How long a training step takes with buckets of several sizes, and with those that data_parallel finds by itself. The backward pass is made
// up: it fills each layer's gradient, and computes for a given time. All take turns, in one process.
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <deque>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "median.hpp"
#include "tutti/training.hpp"
#include "tutti/tutti.hpp"

namespace {

using clock_type = std::chrono::steady_clock;
using model_type = tutti::training::data_parallel<float, tutti::shm>;
using milliseconds = std::chrono::duration<double, std::milli>;

struct options {
  int ranks = 2;
  std::size_t layers = 40;
  std::size_t layer_bytes = std::size_t{2} << 20;
  int layer_us = 500;
  std::vector<std::size_t> sizes{std::size_t{1} << 20, std::size_t{4} << 20, std::size_t{25} << 20,
                                 std::size_t{100} << 20};
  std::size_t first = std::size_t{25} << 20;  // size with which the search begins
  int rounds = 15, steps = 5;
  bool progress_thread = false, device = false;
};

struct contender {
  contender(std::string title, tutti::communicator<tutti::shm>& comm, std::vector<std::vector<float>>& parameters,
            tutti::training::data_parallel_options const& how)
      : name(std::move(title)), model(comm, parameters, how) {}

  std::string name;
  model_type model;
  std::vector<double> times{};  // ms of a step, in each round
};

void step(model_type& model, options const& how) {
  auto end = clock_type::now();
  for (std::size_t layer = model.size(); layer-- > 0;) {
    end = (how.device ? end : clock_type::now()) + std::chrono::microseconds(how.layer_us);
    if (!how.device) std::ranges::fill(model.gradient(layer), 1.0f);
    if (how.device) std::this_thread::sleep_until(end);
    while (clock_type::now() < end) {
    }
    model.ready(layer);
  }
  model.finish();
}

void measure(tutti::communicator<tutti::shm>& comm, options const& how) {
  std::vector<std::vector<float>> parameters(how.layers, std::vector<float>(how.layer_bytes / sizeof(float)));
  using tutti::training::data_parallel_options;
  std::deque<contender> all;
  for (std::size_t const bytes : how.sizes)
    all.emplace_back(fmt::format("{:g} MiB", static_cast<double>(bytes) / (1 << 20)), comm, parameters,
                     data_parallel_options{.buckets = {.bytes = bytes}, .progress_thread = how.progress_thread});
  all.emplace_back("adaptive", comm, parameters,
                   data_parallel_options{.buckets = {.bytes = how.first},
                                         .adapt = tutti::training::adaptive_buckets{},
                                         .progress_thread = how.progress_thread});

  // The search takes at most 8 sizes, each for 6 steps.
  for (contender& c : all)
    for (int i = 0; i < (c.name == "adaptive" ? 60 : 3); ++i) step(c.model, how);
  for (int round = 0; round < how.rounds; ++round)
    for (contender& c : all) {
      tutti::barrier(comm);
      auto const begin = clock_type::now();
      for (int i = 0; i < how.steps; ++i) step(c.model, how);
      double const mine = milliseconds(clock_type::now() - begin).count() / how.steps;
      c.times.push_back(tutti::all_reduce(comm, mine, tutti::max{}));
    }
  if (comm.rank() != 0) return;
  double const computing = static_cast<double>(how.layers) * how.layer_us / 1000;
  fmt::print(
      "{} ranks, {} gradients of {} KiB each, {} us of computing before each: {:.1f} ms a step without "
      "communication\n\n",
      how.ranks, how.layers, how.layer_bytes >> 10, how.layer_us, computing);
  fmt::print("| buckets of | number | ms a step | min..max | not hidden | GB/s while in flight |\n");
  fmt::print("|---|---:|---:|:---:|---:|---:|\n");
  for (contender const& c : all) {
    auto const [least, most] = std::ranges::minmax(c.times);
    double const time = median(c.times);
    fmt::print("| {} | {} | **{:.1f}** | {:.1f}..{:.1f} | {:.0f} % | {:.2f} |\n", c.name, c.model.plan().buckets.size(),
               time, least, most, 100 * (time - computing) / time, c.model.statistics().bandwidth() / 1e9);
  }
}

}  // namespace

int main(int argc, char** argv) {
  options how;
  CLI::App app{"How long a training step takes with buckets of several sizes."};
  app.add_option("-n,--ranks", how.ranks, "ranks, which share memory")->check(CLI::PositiveNumber);
  app.add_option("--layers", how.layers, "number of gradients")->check(CLI::PositiveNumber);
  app.add_option("--layer-bytes", how.layer_bytes, "bytes of each")->transform(CLI::AsSizeValue(false));
  app.add_option("--layer-us", how.layer_us, "microseconds that computing one takes")->check(CLI::NonNegativeNumber);
  app.add_option("--sizes", how.sizes, "sizes of buckets")->delimiter(',')->transform(CLI::AsSizeValue(false));
  app.add_option("--first", how.first, "size with which the adaptive one begins")->transform(CLI::AsSizeValue(false));
  app.add_option("--rounds", how.rounds, "turns of each, of which the median counts")->check(CLI::PositiveNumber);
  app.add_option("--steps", how.steps, "steps of a turn")->check(CLI::PositiveNumber);
  app.add_flag("--device", how.device, "computed elsewhere, as by a device: the cores of the ranks are free");
  app.add_flag("--progress-thread", how.progress_thread, "a thread drives communication");
  CLI11_PARSE(app, argc, argv);
  tutti::run_local(how.ranks, [&](auto& comm) { measure(comm, how); });
}
