// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Solves A x = b by conjugate gradients. A is the sparse matrix of the Poisson equation on a grid, and every rank holds some of
// its rows. An all_gather_v collects the vector that the rows need, and an all_reduce computes each dot product.
// ranks: 4
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <exception>
#include <numbers>
#include <span>
#include <stdexcept>
#include <utility>
#include <vector>

#include <Eigen/SparseCore>

#include "on_ranks.hpp"

namespace {

using Eigen::Index;
using Eigen::VectorXd;
using matrix = Eigen::SparseMatrix<double, Eigen::RowMajor>;

constexpr Index side = 64, unknowns = side * side;

std::span<double> span_of(VectorXd& v) { return {v.data(), static_cast<std::size_t>(v.size())}; }
std::span<double const> span_of(VectorXd const& v) { return {v.data(), static_cast<std::size_t>(v.size())}; }

// Rows [first, first + count) of the five-point Laplacian: each point against its neighbours within the grid.
matrix rows_of(Index first, Index count) {
  std::vector<Eigen::Triplet<double>> entries;
  for (Index i = first; i < first + count; ++i) {
    auto const add = [&](bool inside, Index neighbour) {
      if (inside) entries.emplace_back(i - first, neighbour, -1);
    };
    entries.emplace_back(i - first, i, 4);
    add(i % side > 0, i - 1);
    add(i % side < side - 1, i + 1);
    add(i >= side, i - side);
    add(i < unknowns - side, i + side);
  }
  matrix out(count, unknowns);
  out.setFromTriplets(entries.begin(), entries.end());
  return out;
}

// The answer, from which b is made: a wave and some noise.
double answer(Index i) {
  double const step = std::numbers::pi / (side + 1);
  return std::sin(static_cast<double>(i % side + 1) * step) + 0.01 * std::sin(static_cast<double>(i * i));
}

template <class Communicator>
void program(Communicator& comm) {
  std::vector<std::size_t> counts;
  for (int r = 0; r < comm.size(); ++r) counts.push_back(tutti::part(unknowns, comm.size(), r).count);
  tutti::extent const mine = tutti::part(unknowns, comm.size(), comm.rank());
  auto const first = static_cast<Index>(mine.begin), count = static_cast<Index>(mine.count);
  auto const dot = [&](VectorXd const& a, VectorXd const& b) {
    double sum = a.dot(b);
    tutti::all_reduce(comm, std::span(&sum, 1));
    return sum;
  };

  matrix const a = rows_of(first, count);
  VectorXd const expected = VectorXd::NullaryExpr(count, [&](Index i) { return answer(first + i); });
  VectorXd x = VectorXd::Zero(count), whole(unknowns);
  tutti::all_gather_v(comm, span_of(expected), span_of(whole), counts);
  VectorXd residual = a * whole, direction = residual;  // b, since x is 0
  double error = dot(residual, residual);
  double const target = 1e-20 * error;
  int steps = 0;
  for (; error > target && steps < 1000; ++steps) {
    tutti::all_gather_v(comm, span_of(std::as_const(direction)), span_of(whole), counts);
    VectorXd const image = a * whole;
    double const length = error / dot(direction, image);
    x += length * direction;
    residual -= length * image;
    double const before = error;
    error = dot(residual, residual);
    direction = residual + error / before * direction;
  }

  VectorXd const difference = x - expected;
  double const off = std::sqrt(dot(difference, difference) / static_cast<double>(unknowns));
  if (comm.is_main())
    std::printf("%td unknowns on %d ranks: %d steps, root mean square error %.1e\n", unknowns, comm.size(), steps, off);
  if (steps == 0 || steps == 1000 || off > 1e-8) throw std::runtime_error("conjugate gradients went wrong");
}

}  // namespace

int main() try {
  on_ranks(4, [](auto& comm) { program(comm); });
} catch (std::exception const& e) {
  std::fprintf(stderr, "%s\n", e.what());
  return 1;
}
