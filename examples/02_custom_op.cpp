// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Your own element type and operation: computes mean and standard deviation of numbers that are distributed over the ranks,
// with a single all_reduce of a small struct.
// ranks: 4
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <exception>
#include <stdexcept>
#include <vector>

#include <tutti/tutti.hpp>

namespace {

// How many numbers, their mean, and the sum of their squared distances from it.
struct moments {
  double count = 0, mean = 0, squares = 0;

  double deviation() const { return std::sqrt(squares / count); }
};

// The moments of two sets taken together (Chan, Golub, LeVeque, 1979). Associative and commutative as far as rounding
// goes; a functor that does not say so is combined in rank order.
struct merge {
  static constexpr bool commutative = true;

  moments operator()(moments const& a, moments const& b) const {
    double const count = a.count + b.count, apart = b.mean - a.mean;
    if (count == 0) return a;
    return {count, a.mean + apart * b.count / count, a.squares + b.squares + apart * apart * a.count * b.count / count};
  }
};

// A measurement: a large constant and a little noise, which is what makes the textbook formula fail.
double measured(std::size_t i) { return 1e7 + std::sin(static_cast<double>(i * i)); }

moments moments_of(tutti::extent some) {
  moments out;
  for (std::size_t i = some.begin; i < some.end(); ++i) out = merge{}(out, {1, measured(i), 0});
  return out;
}

void program(tutti::communicator<tutti::shm>& comm) {
  std::size_t const n = 1'000'000;
  std::vector<moments> together{moments_of(tutti::part(n, comm.size(), comm.rank()))};
  tutti::all_reduce(comm, together, merge{});
  if (!comm.is_main()) return;

  moments const alone = moments_of({0, n});
  double sum = 0, squares = 0;
  for (std::size_t i = 0; i < n; ++i) sum += measured(i), squares += measured(i) * measured(i);
  double const mean = sum / static_cast<double>(n);
  std::printf("%zu measurements around ten million, on %d ranks\n", n, comm.size());
  std::printf("  merged over ranks     mean %.6f   deviation %.9f\n", together[0].mean, together[0].deviation());
  std::printf("  one process alone     mean %.6f   deviation %.9f\n", alone.mean, alone.deviation());
  std::printf("  E[x^2] - E[x]^2       mean %.6f   variance  %.9f  (digits lost, hence the struct)\n", mean,
              squares / static_cast<double>(n) - mean * mean);
  if (together[0].count != static_cast<double>(n) || std::abs(together[0].mean - alone.mean) > 1e-6 ||
      std::abs(together[0].deviation() - alone.deviation()) > 1e-6)
    throw std::runtime_error("the merged moments differ from those of one process");
}

}  // namespace

int main() try { tutti::run(4, program); } catch (std::exception const& e) {
  std::fprintf(stderr, "%s\n", e.what());
  return 1;
}
