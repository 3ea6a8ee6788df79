// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The quick search and the simulation agree on every schedule.
#include "tutti/analyze/critical_path.hpp"

#include <doctest/doctest.h>

#include "tutti/algorithm/registry.hpp"
#include "tutti/analyze/simulate.hpp"

using namespace tutti;
using namespace tutti::analyze;

TEST_CASE("the longest chains are those of the simulation") {
  for (int const ranks : {2, 3, 4, 5, 8, 13, 16, 31})
    for_each_schedule([&](algorithm_id id, collective c, dynamic_schedule s) {
      shape const of{ranks};
      double const bytes = s.chunks(of) * s.lanes(of);
      INFO(name(id), " ", name(c), ", ", ranks, " ranks");
      auto const [longest, busiest] = critical_path(s, of, 1)();
      double const missing = s.lanes(of) > 1 ? 2.0 / 3 : 0;
      auto const check = [&](std::uint64_t ours, model const& m) {
        double const theirs = simulate(s, of, {bytes}, m).seconds;
        CHECK(static_cast<double>(ours) <= theirs + 1e-9);
        CHECK(static_cast<double>(ours) >= theirs * (1 - missing) - 1e-9);
      };
      check(longest.hops, {.alpha = 1, .beta = 0, .gamma = 0});
      check(longest.messages, {.alpha = 0, .beta = 0, .gamma = 0, .gap = 1});
      check(longest.sent, {.alpha = 0, .beta = 1, .gamma = 0});
      check(longest.combined, {.alpha = 0, .beta = 0, .gamma = 1});
    });
}

TEST_CASE("a further slice through a tree costs less than the first") {
  shape const of{16};
  auto const tree = find_schedule(algorithm_id::binomial_tree, collective::broadcast);
  std::uint64_t const first = critical_path(tree, of, 1)().longest.sent,
                      both = critical_path(tree, of, 2)().longest.sent;
  CHECK(first == 4);
  CHECK(both > first);
  CHECK(both <= 2 * first);
}
