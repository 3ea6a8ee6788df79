// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// How long a training step takes with buckets of several sizes, with those that data_parallel finds by itself, and by priority. A step is a
// backward pass and the next forward pass, which begins when all gradients are averaged, or layer by layer. Both are made up: they compute for
// a given time, and the backward pass fills each layer's gradient. All take turns, in one process.
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <deque>
#include <functional>
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
  int layer_us = 500, forward_us = 250;
  std::vector<std::size_t> sizes{std::size_t{1} << 20, std::size_t{4} << 20, std::size_t{100} << 20};
  std::vector<std::size_t> waiting{std::size_t{1} << 20,
                                   std::size_t{4} << 20};  // sizes with which layers wait for their own gradients
  std::size_t first = std::size_t{25} << 20;               // size with which the search begins
  int rounds = 15, steps = 5;
  bool progress_thread = false, device = false;
};

// When the forward pass may begin: when all gradients are averaged, or each layer when its own are.
enum class begins { after_all, by_layer };

struct contender {
  contender(std::string title, begins when, tutti::communicator<tutti::shm>& comm,
            std::vector<std::vector<float>>& parameters, tutti::training::data_parallel_options const& how)
      : name(std::move(title)), forward(when), model(comm, parameters, how) {}

  std::string name;
  begins forward;
  model_type model;
  std::vector<double> times{};  // ms of a step, in each round
};

// Computes layers: on the core of the rank, or on a device, which does one after another what it is asked for.
class computer {
 public:
  explicit computer(bool device) : device_(device) {}

  void begin(int us) {
    auto const now = clock_type::now();
    done_.push_back((device_ && !done_.empty() ? std::max(done_.back(), now) : now) + std::chrono::microseconds(us));
    if (!device_) wait(done_.size() - 1);
  }
  // For the n-th layer that was begun.
  void wait(std::size_t n) const {
    if (device_) std::this_thread::sleep_until(done_[n]);
    while (clock_type::now() < done_[n]) {
    }
  }

 private:
  bool device_;
  std::vector<clock_type::time_point> done_{};
};

void step(contender& c, options const& how) {
  model_type& model = c.model;
  std::size_t const layers = model.size();
  computer backward(how.device), forward(how.device);
  if (how.device)
    for (std::size_t i = 0; i < layers; ++i) backward.begin(how.layer_us);
  for (std::size_t i = 0; i < layers; ++i) {
    std::size_t const layer = layers - 1 - i;
    if (how.device) {
      backward.wait(i);
    } else {
      backward.begin(how.layer_us);
      std::ranges::fill(model.gradient(layer), 1.0f);
    }
    model.ready(layer);
  }
  if (c.forward == begins::after_all) model.finish();
  for (std::size_t layer = 0; layer < layers; ++layer) {
    if (c.forward == begins::by_layer) model.wait(layer);
    forward.begin(how.forward_us);
  }
  forward.wait(layers - 1);
  if (c.forward == begins::by_layer) model.finish();
}

void measure(tutti::communicator<tutti::shm>& comm, options const& how) {
  std::vector<std::vector<float>> parameters(how.layers, std::vector<float>(how.layer_bytes / sizeof(float)));
  using tutti::training::data_parallel_options;
  std::deque<contender> all;
  auto const name_of = [](std::size_t bytes) {
    return fmt::format("{:g} MiB", static_cast<double>(bytes) / (1 << 20));
  };
  auto const add = [&](std::string const& name, begins when, data_parallel_options with) {
    with.progress_thread = how.progress_thread;
    all.emplace_back(name, when, comm, parameters, with);
  };
  add("25 MiB", begins::after_all, {});  // the first is what others are compared with
  for (std::size_t const bytes : how.sizes) add(name_of(bytes), begins::after_all, {.buckets = {.bytes = bytes}});
  add("adaptive", begins::after_all, {.buckets = {.bytes = how.first}, .adapt = tutti::training::adaptive_buckets{}});
  for (std::size_t const bytes : how.waiting)
    for (bool const by_priority : {false, true})
      add(name_of(bytes) + (by_priority ? ", by priority" : ", in order"), begins::by_layer,
          {.buckets = {.bytes = bytes}, .by_priority = by_priority});

  // The search takes 154 steps at most.
  for (contender& c : all)
    for (int i = 0; i < (c.name == "adaptive" ? 154 : 3); ++i) step(c, how);
  for (int round = 0; round < how.rounds; ++round)
    for (contender& c : all) {
      tutti::barrier(comm);
      auto const begin = clock_type::now();
      for (int i = 0; i < how.steps; ++i) step(c, how);
      double const mine = milliseconds(clock_type::now() - begin).count() / how.steps;
      c.times.push_back(tutti::all_reduce(comm, mine, tutti::max{}));
    }
  if (comm.rank() != 0) return;
  double const computing = static_cast<double>(how.layers) * (how.layer_us + how.forward_us) / 1000;
  fmt::print(
      "{} ranks, {} gradients of {} KiB each, {} us of computing before each and {} us in the forward pass: {:.1f} ms "
      "a step without communication. Ratio: the time with buckets of 25 MiB in the same round, divided by this one; "
      "more than 1 is faster.\n\n",
      how.ranks, how.layers, how.layer_bytes >> 10, how.layer_us, how.forward_us, computing);
  fmt::print(
      "| buckets of | forward pass begins | number | ms a step | min..max | ratio | min..max | not hidden | GB/s while "
      "in flight |\n");
  fmt::print("|---|---|---:|---:|:---:|---:|:---:|---:|---:|\n");
  for (contender const& c : all) {
    auto const [least, most] = std::ranges::minmax(c.times);
    double const time = median(c.times);
    std::vector<double> ratios(c.times.size());
    std::ranges::transform(all.front().times, c.times, ratios.begin(), std::divides{});
    auto const [worst, best] = std::ranges::minmax(ratios);
    fmt::print("| {} | {} | {} | {:.1f} | {:.1f}..{:.1f} | **{:.2f}** | {:.2f}..{:.2f} | {:.0f} % | {:.2f} |\n", c.name,
               c.forward == begins::after_all ? "after all" : "layer by layer", c.model.plan().buckets.size(), time,
               least, most, median(ratios), worst, best, 100 * (time - computing) / time,
               c.model.statistics().bandwidth() / 1e9);
  }
}

}  // namespace

int main(int argc, char** argv) {
  options how;
  CLI::App app{"How long a training step takes with buckets of several sizes, in order or by priority."};
  app.add_option("-n,--ranks", how.ranks, "ranks, which share memory")->check(CLI::PositiveNumber);
  app.add_option("--layers", how.layers, "number of gradients")->check(CLI::PositiveNumber);
  app.add_option("--layer-bytes", how.layer_bytes, "bytes of each")->transform(CLI::AsSizeValue(false));
  app.add_option("--layer-us", how.layer_us, "microseconds that computing one takes")->check(CLI::NonNegativeNumber);
  app.add_option("--forward-us", how.forward_us, "the same in the forward pass")->check(CLI::NonNegativeNumber);
  app.add_option("--waiting", how.waiting, "sizes of buckets for a forward pass that begins layer by layer")
      ->delimiter(',')
      ->transform(CLI::AsSizeValue(false));
  app.add_option("--sizes", how.sizes, "sizes of buckets, in addition to 25 MiB")
      ->delimiter(',')
      ->transform(CLI::AsSizeValue(false));
  app.add_option("--first", how.first, "size with which the adaptive one begins")->transform(CLI::AsSizeValue(false));
  app.add_option("--rounds", how.rounds, "turns of each, of which the median counts")->check(CLI::PositiveNumber);
  app.add_option("--steps", how.steps, "steps of a turn")->check(CLI::PositiveNumber);
  app.add_flag("--device", how.device, "computed elsewhere, as by a device: the cores of the ranks are free");
  app.add_flag("--progress-thread", how.progress_thread, "a thread drives communication");
  CLI11_PARSE(app, argc, argv);
  tutti::run_local(how.ranks, [&](auto& comm) { measure(comm, how); });
}
