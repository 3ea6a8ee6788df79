// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// How long an all_reduce takes with each kind of sum, from the fastest to those whose bits depend on less. All take turns, in one process.
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "median.hpp"
#include "tutti/tutti.hpp"

namespace {

struct options {
  int ranks = 2;
  std::vector<std::size_t> counts{100, 10'000, 1'000'000};
  int rounds = 15, calls = 3;
};

struct contender {
  std::string name;
  std::function<void()> call;
  std::vector<double> times{};  // us of a call, in each round
};

// `in` and `out` must outlive the result.
template <class T, class Comm>
std::vector<contender> contenders(Comm& comm, std::vector<T> const& in, std::vector<T>& out) {
  auto const by = [&](auto op) { return [&comm, &in, &out, op] { tutti::all_reduce(comm, in, out, op); }; };
  auto const of_type = [&]<class Sum>(Sum) {
    std::vector<Sum> sums(in.size());
    for (std::size_t i = 0; i < in.size(); ++i) sums[i] += in[i];
    return [&comm, sums, total = std::vector<Sum>(in.size())]() mutable {
      tutti::all_reduce(comm, sums, total, tutti::sum{});
    };
  };
  return {{"`sum{}`", by(tutti::sum{})},
          {"`rank_ordered{sum{}}`", by(tutti::rank_ordered{tutti::sum{}})},
          {"`reproducible_sum{}`", by(tutti::reproducible_sum{})},
          {"`compensated_sum{}`", by(tutti::compensated_sum{})},
          {"`sum{}` of `binned<T>`", of_type(tutti::binned<T>{})},
          {"`sum{}` of `compensated<T>`", of_type(tutti::compensated<T>{})}};
}

template <class T, class Comm>
void measure(Comm& comm, std::string const& type, options const& how) {
  for (std::size_t const count : how.counts) {
    std::mt19937 random(static_cast<unsigned>(comm.rank()));
    std::normal_distribution<T> some;
    std::vector<T> in(count), out(count);
    for (T& x : in) x = some(random);
    auto all = contenders(comm, in, out);
    int const calls = how.calls * static_cast<int>(1 + 100'000 / count);
    for (int round = -1; round < how.rounds; ++round)
      for (contender& c : all) {
        tutti::barrier(comm);
        auto const begin = std::chrono::steady_clock::now();
        for (int i = 0; i < calls; ++i) c.call();
        double const mine = std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin).count();
        double const slowest = tutti::all_reduce(comm, mine, tutti::max{}) / calls;
        if (round >= 0) c.times.push_back(slowest);
      }
    if (comm.rank() != 0) continue;
    for (contender const& c : all) {
      auto const [least, most] = std::ranges::minmax(c.times);
      double const time = median(c.times);
      fmt::print("| {} | {} | {} | {:.1f} | {:.1f}..{:.1f} | {:.1f} |\n", count, type, c.name, time, least, most,
                 time / median(all.front().times));
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  options how;
  CLI::App app{"How long an all_reduce takes with each kind of sum."};
  app.add_option("-n,--ranks", how.ranks, "ranks, which share memory")->check(CLI::PositiveNumber);
  app.add_option("--counts", how.counts, "numbers of elements")->delimiter(',');
  app.add_option("--rounds", how.rounds, "turns of each, of which the median counts")->check(CLI::PositiveNumber);
  app.add_option("--calls", how.calls, "calls of a turn; more of short ones")->check(CLI::PositiveNumber);
  CLI11_PARSE(app, argc, argv);
  fmt::print("| elements | type | sum | us | min..max | times `sum{{}}` |\n|---:|---|---|---:|:---:|---:|\n");
  std::fflush(stdout);
  tutti::run_local(how.ranks, [&](auto& comm) {
    measure<float>(comm, "float", how);
    measure<double>(comm, "double", how);
  });
}
