// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Heat spreads in a square plate whose edges are kept cold. Every rank has a strip of rows; before each step it gets the
// row beyond each end of its strip from the rank that has it, and after it all learn the greatest change.
// Draws the end into the file that it is given (PPM).
// ranks: 4
// args: heat.ppm
#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <exception>
#include <fstream>
#include <numbers>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "on_ranks.hpp"

namespace {

constexpr std::size_t side = 128, width = side + 2;  // points within, and with the two edges
constexpr double rate = 0.2;                         // of exchange between two points in a step

// A wave that keeps its form and only decays, in each step by a factor that is known exactly.
struct wave {
  double across, down;  // half waves

  static double angle(double halves, std::size_t i) {
    return std::numbers::pi * halves * static_cast<double>(i) / static_cast<double>(side + 1);
  }
  double at(std::size_t row, std::size_t column, int steps) const {
    double const decay = 1 - 2 * rate * (2 - std::cos(angle(across, 1)) - std::cos(angle(down, 1)));
    return std::pow(decay, steps) * std::sin(angle(across, column)) * std::sin(angle(down, row));
  }
};
double exact(std::size_t row, std::size_t column, int steps) {
  return (wave{1, 1}.at(row, column, steps) + wave{5, 3}.at(row, column, steps)) / 2;
}

// The rows of a rank, with one more at each end.
struct strip {
  std::size_t rows;
  std::vector<double> now = std::vector<double>((rows + 2) * width), then = now;

  std::span<double> row(std::size_t i) { return std::span(now).subspan(i * width, width); }
  std::span<double> own() { return std::span(now).subspan(width, rows * width); }

  // Returns the greatest change.
  double step() {
    double change = 0;
    for (std::size_t i = 1; i <= rows; ++i)
      for (std::size_t at = i * width + 1; at <= i * width + side; ++at) {
        double const flow = rate * (now[at - width] + now[at + width] + now[at - 1] + now[at + 1] - 4 * now[at]);
        then[at] = now[at] + flow;
        change = std::max(change, std::abs(flow));
      }
    std::swap(now, then);
    return change;
  }
};

// Black, red, yellow, white.
void write_picture(std::string const& path, std::vector<double> const& heat) {
  std::ofstream file(path, std::ios::binary);
  file << "P6 " << width << ' ' << heat.size() / width << " 255\n";
  for (double const h : heat)
    for (double const darker : {0, 1, 2}) file.put(static_cast<char>(255 * std::clamp(3 * h - darker, 0.0, 1.0)));
  if (!file.flush()) throw std::runtime_error("cannot write " + path + "; name a file that can be written");
}

template <class Communicator>
void program(Communicator& comm, std::string const& picture) {
  int const ranks = comm.size(), me = comm.rank();
  if (ranks > static_cast<int>(side)) throw std::runtime_error("more ranks than rows; use at most 128");
  int const above = me > 0 ? me - 1 : tutti::no_rank, below = me + 1 < ranks ? me + 1 : tutti::no_rank;
  auto const [first, rows] = tutti::part(side, ranks, me);
  strip plate{rows};
  for (std::size_t i = 1; i <= rows; ++i)
    for (std::size_t j = 1; j <= side; ++j) plate.row(i)[j] = exact(first + i, j, 0);

  std::array change{1.0}, error{0.0};
  int steps = 0;
  for (; change[0] > 1e-3; ++steps) {
    tutti::send_recv(comm, plate.row(1), above, plate.row(rows + 1), below);
    tutti::send_recv(comm, plate.row(rows), below, plate.row(0), above);
    change[0] = plate.step();
    tutti::all_reduce(comm, change, tutti::max{});
  }

  for (std::size_t i = 1; i <= rows; ++i)
    for (std::size_t j = 1; j <= side; ++j)
      error[0] = std::max(error[0], std::abs(plate.row(i)[j] - exact(first + i, j, steps)));
  tutti::all_reduce(comm, error, tutti::max{});
  std::vector<std::size_t> counts;
  for (int r = 0; r < ranks; ++r) counts.push_back(tutti::part(side, ranks, r).count * width);
  std::vector<double> whole(comm.is_main() ? side * width : 0);
  tutti::gather_v(comm, plate.own(), whole, counts);
  comm.main_only([&] {
    std::printf("%zu x %zu points on %d ranks, %d steps: off by at most %.1e\n", side, side, ranks, steps, error[0]);
    if (!picture.empty()) write_picture(picture, whole);
    if (steps < 100 || !(error[0] < 1e-12)) throw std::runtime_error("the heat went astray");
  });
}

}  // namespace

int main(int argc, char** argv) try {
  on_ranks(4, [&](auto& comm) { program(comm, argc > 1 ? argv[1] : ""); });
} catch (std::exception const& e) {
  std::fprintf(stderr, "%s\n", e.what());
  return 1;
}
