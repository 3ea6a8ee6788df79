// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Computes pi as the area under 4 / (1 + x^2) from 0 to 1. Every rank computes some of the strips, and a reduce adds them up.
// ranks: 4
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <exception>
#include <numbers>
#include <stdexcept>

#include "on_ranks.hpp"

namespace {

template <class Communicator>
void program(Communicator& comm) {
  std::size_t const strips = 10'000'000;
  double const width = 1.0 / strips;
  tutti::extent const mine = tutti::part(strips, comm.size(), comm.rank());
  std::array area{0.0}, pi{0.0};
  for (std::size_t i = mine.begin; i < mine.end(); ++i) {
    double const x = width * (static_cast<double>(i) + 0.5);
    area[0] += width * 4 / (1 + x * x);
  }
  tutti::reduce(comm, area, pi);

  comm.main_only([&] {
    double const off = std::abs(pi[0] - std::numbers::pi);
    std::printf("pi is %.12f, by %zu strips on %d ranks; off by %.1e\n", pi[0], strips, comm.size(), off);
    if (!(off < 1e-9)) throw std::runtime_error("that is not pi");
  });
}

}  // namespace

int main() try {
  on_ranks(4, [](auto& comm) { program(comm); });
} catch (std::exception const& e) {
  std::fprintf(stderr, "%s\n", e.what());
  return 1;
}
