// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Softmax and L2 norm of scores that are distributed over the ranks. One all_reduce of a struct computes the greatest score and
// the sum of exponentials together. It avoids overflow, and needs one round of communication instead of two.
// ranks: 4
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <exception>
#include <limits>
#include <stdexcept>
#include <vector>

#include "on_ranks.hpp"

namespace {

// Of some scores: the greatest, and the sum of exp(score - greatest) (Milakov and Gimelshein, 2018); the sum of squares.
struct summary {
  double greatest = -std::numeric_limits<double>::infinity();
  double exponentials = 0, squares = 0;
};

struct merge {
  static constexpr bool commutative = true;

  summary operator()(summary const& a, summary const& b) const {
    double const top = a.greatest < b.greatest ? b.greatest : a.greatest;
    auto const part = [&](summary const& s) {
      return s.exponentials == 0 ? 0 : s.exponentials * std::exp(s.greatest - top);
    };
    return {top, part(a) + part(b), a.squares + b.squares};
  }
};

// Scores up to 2000, whose exponentials no double can hold.
double score(std::size_t i) { return 1000 + 1000 * std::sin(static_cast<double>(i)); }

summary summary_of(tutti::extent some) {
  summary out;
  for (std::size_t i = some.begin; i < some.end(); ++i) out = merge{}(out, {score(i), 1, score(i) * score(i)});
  return out;
}

template <class Communicator>
void program(Communicator& comm) {
  std::size_t const n = 100'000;
  tutti::extent const mine = tutti::part(n, comm.size(), comm.rank());
  std::vector<summary> all{summary_of(mine)};
  tutti::all_reduce(comm, all, merge{});

  // Every rank has the probabilities of its own scores; together they are 1.
  std::vector<double> total{0};
  for (std::size_t i = mine.begin; i < mine.end(); ++i)
    total[0] += std::exp(score(i) - all[0].greatest) / all[0].exponentials;
  tutti::all_reduce(comm, total);

  summary const alone = summary_of({0, n});
  if (comm.is_main())
    std::printf(
        "%zu scores on %d ranks: L2 norm %.6f, log of the sum of exponentials %.9f, probabilities sum to %.12f\n", n,
        comm.size(), std::sqrt(all[0].squares), all[0].greatest + std::log(all[0].exponentials), total[0]);
  if (std::abs(total[0] - 1) > 1e-9 || all[0].greatest != alone.greatest ||
      std::abs(all[0].exponentials / alone.exponentials - 1) > 1e-9 ||
      std::abs(all[0].squares / alone.squares - 1) > 1e-9)
    throw std::runtime_error("the merged scores differ from those of one process");
}

}  // namespace

int main() try {
  on_ranks(4, [](auto& comm) { program(comm); });
} catch (std::exception const& e) {
  std::fprintf(stderr, "%s\n", e.what());
  return 1;
}
