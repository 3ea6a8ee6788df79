// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The energy of n bodies that all attract each other. Every rank holds a block of bodies, but needs all of them once. So the
// ranks form a ring and pass copies of the blocks to the next rank, one place per step, until each block is back where it
// started. No rank ever holds more than two blocks.
// ranks: 4
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <exception>
#include <stdexcept>
#include <utility>
#include <vector>

#include "on_ranks.hpp"

namespace {

struct body {
  double x, y, z, mass;

  friend bool operator==(body const&, body const&) = default;
};

// Spread over a cube, no two in one place: steps by the powers of a root of x^4 = x + 1, modulo 1.
body numbered(std::size_t i) {
  auto const place = [&](double step) { return std::fmod(static_cast<double>(i) * step, 1.0); };
  return {place(0.8191725134), place(0.6710436067), place(0.5497004779), 1 + static_cast<double>(i % 3)};
}

std::vector<body> bodies(tutti::extent some) {
  std::vector<body> out;
  for (std::size_t i = some.begin; i < some.end(); ++i) out.push_back(numbered(i));
  return out;
}

// Of each of `some` with each of `others`, but not with itself.
double energy_between(std::vector<body> const& some, std::vector<body> const& others) {
  double sum = 0;
  for (body const& a : some)
    for (body const& b : others)
      if (a != b) sum -= a.mass * b.mass / std::hypot(a.x - b.x, a.y - b.y, a.z - b.z);
  return sum;
}

template <class Communicator>
void program(Communicator& comm) {
  std::size_t const n = 1500;
  int const ranks = comm.size(), me = comm.rank();
  int const left = (me + ranks - 1) % ranks, right = (me + 1) % ranks;
  std::vector<body> const own = bodies(tutti::part(n, ranks, me));
  std::vector<body> visitors = own, next;
  std::array energy{0.0};
  for (int step = 1; step <= ranks; ++step) {
    energy[0] += energy_between(own, visitors) / 2;  // each pair is seen from both sides
    int const home = (me + ranks - step) % ranks;    // of those that come now
    next.resize(tutti::part(n, ranks, home).count);
    tutti::send_recv(comm, visitors, right, next, left);
    std::swap(visitors, next);
  }
  if (visitors != own) throw std::runtime_error("the bodies that came home are not those that left");
  tutti::all_reduce(comm, energy);

  comm.main_only([&] {
    std::vector<body> const all = bodies({0, n});
    double const alone = energy_between(all, all) / 2;
    std::printf("%zu bodies on %d ranks: energy %.9f; one process alone: %.9f\n", n, ranks, energy[0], alone);
    if (!(std::abs(energy[0] / alone - 1) < 1e-9)) throw std::runtime_error("the energies differ");
  });
}

}  // namespace

int main() try {
  on_ranks(4, [](auto& comm) { program(comm); });
} catch (std::exception const& e) {
  std::fprintf(stderr, "%s\n", e.what());
  return 1;
}
