// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Heat spreads in a square plate whose edges are kept cold. The ranks form a 2D grid, and every rank holds a block of the plate.
// Before each step, a rank receives the adjacent rows and columns (the halo) from its neighbours; after each step, an all_reduce
// finds the greatest change. The result is compared with the exact solution and written to a PPM file.
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

constexpr std::size_t side = 128;  // points within the edges
constexpr double rate = 0.2;       // of exchange between two points in a step

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

// The ranks in rows and columns, as even as their number allows, and the place of one of them.
struct grid {
  int rows, columns, row, column;

  grid(int ranks, int rank) : rows(static_cast<int>(std::sqrt(ranks))) {
    while (ranks % rows != 0) --rows;
    columns = ranks / rows;
    row = rank / columns;
    column = rank % columns;
  }
  int neighbour(int down, int across) const {
    int const r = row + down, c = column + across;
    return r < 0 || r >= rows || c < 0 || c >= columns ? tutti::no_rank : r * columns + c;
  }
};

// The points of a rank, with one row or column more at each side.
struct block {
  std::size_t first_row, rows, first_column, columns, width = columns + 2;
  std::vector<double> now = std::vector<double>((rows + 2) * width), then = now;

  double& at(std::size_t i, std::size_t j) { return now[i * width + j]; }
  std::span<double> row(std::size_t i) { return std::span(now).subspan(i * width + 1, columns); }
  tutti::strided_span<double> column(std::size_t j) {
    return tutti::strided(&at(1, j), rows, static_cast<std::ptrdiff_t>(width));
  }
  std::vector<double> own() {
    std::vector<double> out;
    for (std::size_t i = 1; i <= rows; ++i) out.insert(out.end(), row(i).begin(), row(i).end());
    return out;
  }

  template <class Communicator>
  void exchange(Communicator& comm, grid const& ranks) {
    int const above = ranks.neighbour(-1, 0), below = ranks.neighbour(1, 0);
    int const left = ranks.neighbour(0, -1), right = ranks.neighbour(0, 1);
    tutti::batch(comm)
        .send(row(1), above)
        .send(row(rows), below)
        .send(column(1), left)
        .send(column(columns), right)
        .recv(row(0), above)
        .recv(row(rows + 1), below)
        .recv(column(0), left)
        .recv(column(columns + 1), right)
        .run();
  }

  // Returns the greatest change.
  double step() {
    double change = 0;
    for (std::size_t i = 1; i <= rows; ++i)
      for (std::size_t j = 1; j <= columns; ++j) {
        double const flow = rate * (at(i - 1, j) + at(i + 1, j) + at(i, j - 1) + at(i, j + 1) - 4 * at(i, j));
        then[i * width + j] = at(i, j) + flow;
        change = std::max(change, std::abs(flow));
      }
    std::swap(now, then);
    return change;
  }
};
block block_of(grid const& ranks, int row, int column) {
  auto const [first_row, rows] = tutti::part(side, ranks.rows, row);
  auto const [first_column, columns] = tutti::part(side, ranks.columns, column);
  return {first_row, rows, first_column, columns};
}

// The blocks of all ranks, one after the other, as one plate.
std::vector<double> assemble(grid const& ranks, std::vector<double> const& blocks) {
  std::vector<double> out(blocks.size());
  auto from = blocks.begin();
  for (int r = 0; r < ranks.rows; ++r)
    for (int c = 0; c < ranks.columns; ++c) {
      auto const [first_row, rows] = tutti::part(side, ranks.rows, r);
      auto const [first_column, columns] = tutti::part(side, ranks.columns, c);
      for (std::size_t i = first_row; i < first_row + rows; ++i, from += static_cast<std::ptrdiff_t>(columns))
        std::copy_n(from, columns, out.begin() + static_cast<std::ptrdiff_t>(i * side + first_column));
    }
  return out;
}

// Black, red, yellow, white.
void write_picture(std::string const& path, std::vector<double> const& heat) {
  std::ofstream file(path, std::ios::binary);
  file << "P6 " << side << ' ' << side << " 255\n";
  for (double const h : heat)
    for (double const darker : {0, 1, 2}) file.put(static_cast<char>(255 * std::clamp(3 * h - darker, 0.0, 1.0)));
  if (!file.flush()) throw std::runtime_error("cannot write " + path + "; name a file that can be written");
}

template <class Communicator>
void program(Communicator& comm, std::string const& picture) {
  grid const ranks(comm.size(), comm.rank());
  if (ranks.columns > static_cast<int>(side)) throw std::runtime_error("more columns of ranks than of points");
  block plate = block_of(ranks, ranks.row, ranks.column);
  auto const known = [&](std::size_t i, std::size_t j, int steps) {
    return exact(plate.first_row + i, plate.first_column + j, steps);
  };
  for (std::size_t i = 1; i <= plate.rows; ++i)
    for (std::size_t j = 1; j <= plate.columns; ++j) plate.at(i, j) = known(i, j, 0);

  std::array change{1.0}, error{0.0};
  int steps = 0;
  for (; change[0] > 1e-3; ++steps) {
    plate.exchange(comm, ranks);
    change[0] = plate.step();
    tutti::all_reduce(comm, change, tutti::max{});
  }

  for (std::size_t i = 1; i <= plate.rows; ++i)
    for (std::size_t j = 1; j <= plate.columns; ++j)
      error[0] = std::max(error[0], std::abs(plate.at(i, j) - known(i, j, steps)));
  tutti::all_reduce(comm, error, tutti::max{});
  std::vector<std::size_t> counts;
  for (int r = 0; r < ranks.rows; ++r)
    for (int c = 0; c < ranks.columns; ++c)
      counts.push_back(tutti::part(side, ranks.rows, r).count * tutti::part(side, ranks.columns, c).count);
  std::vector<double> blocks(comm.is_main() ? side * side : 0);
  tutti::gather_v(comm, plate.own(), blocks, counts);
  comm.main_only([&] {
    std::printf("%zu x %zu points on %d x %d ranks, %d steps: off by at most %.1e\n", side, side, ranks.rows,
                ranks.columns, steps, error[0]);
    if (!picture.empty()) write_picture(picture, assemble(ranks, blocks));
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
