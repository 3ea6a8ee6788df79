// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A drop of ink spreads in a pipe. Every rank holds a section of the pipe. Before each step, it receives the points just beyond
// both ends from its neighbours (docs/messages.md). The result is compared with a computation on a single rank.
// ranks: 4
// args: 200
#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <span>
#include <stdexcept>
#include <vector>

#include "on_ranks.hpp"

namespace {

constexpr std::size_t points = 10'000;

double ink_at(std::size_t point) {
  double const distance = static_cast<double>(point) / points - 0.5;
  return std::exp(-1000 * distance * distance);
}

// The ink of points 1 to n after a step; 0 and n + 1 are those beyond the ends.
void spread(std::vector<double>& ink, std::vector<double>& next) {
  for (std::size_t i = 1; i + 1 < ink.size(); ++i) next[i] = ink[i] + 0.25 * (ink[i - 1] - 2 * ink[i] + ink[i + 1]);
  std::swap(ink, next);
}

std::vector<double> spread_alone(int steps) {
  std::vector<double> ink(points + 2, 0.0), next = ink;
  for (std::size_t i = 0; i < points; ++i) ink[i + 1] = ink_at(i);
  for (int s = 0; s < steps; ++s) spread(ink, next);
  return {ink.begin() + 1, ink.end() - 1};
}

template <class Communicator>
void program(Communicator& comm, int steps) {
  auto const [first, count] = tutti::part(points, comm.size(), comm.rank());
  std::vector<double> ink(count + 2, 0.0), next = ink;
  for (std::size_t i = 0; i < count; ++i) ink[i + 1] = ink_at(first + i);

  // The pipe is closed at both ends: nobody is beyond, and the points there stay 0.
  int const left = comm.rank() > 0 ? comm.rank() - 1 : tutti::no_rank;
  int const right = comm.rank() + 1 < comm.size() ? comm.rank() + 1 : tutti::no_rank;
  for (int s = 0; s < steps; ++s) {
    std::span<double> const all(ink);
    tutti::send_recv(comm, all.subspan(1, 1), left, all.subspan(count + 1, 1), right);
    tutti::send_recv(comm, all.subspan(count, 1), right, all.subspan(0, 1), left);
    spread(ink, next);
  }

  // The stretches of all ranks, one after the other, at rank 0.
  std::vector<std::size_t> counts;
  for (int r = 0; r < comm.size(); ++r) counts.push_back(tutti::part(points, comm.size(), r).count);
  std::vector<double> together(comm.is_main() ? points : 0);
  tutti::gather_v(comm, std::span(ink).subspan(1, count), together, counts);

  std::array most{*std::ranges::max_element(ink)};
  tutti::all_reduce(comm, most, tutti::max{});
  comm.main_only([&] {
    std::printf("%zu points on %d ranks, %d steps: at most %.6f of the ink in one point\n", points, comm.size(), steps,
                most[0]);
    if (together != spread_alone(steps)) throw std::runtime_error("the ink differs from that of a run without ranks");
  });
}

}  // namespace

int main(int argc, char** argv) try {
  int const steps = argc > 1 ? std::atoi(argv[1]) : 200;
  on_ranks(4, [&](auto& comm) { program(comm, steps); });
} catch (std::exception const& e) {
  std::fprintf(stderr, "%s\n", e.what());
  return 1;
}
