// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The limits that benchmarks on a GPU print.
#include "../../bench/crossover.hpp"

#include <doctest/doctest.h>

using tutti::bench::best_limit;

TEST_CASE("a limit is where the ways cross, whatever a single time says") {
  constexpr auto all = static_cast<std::size_t>(-1);
  CHECK(best_limit({}) == 0);
  CHECK(best_limit({{8, 1, 2}, {16, 1, 2}, {32, 3, 2}, {64, 4, 2}}) == 16);
  CHECK(best_limit({{8, 1, 2}, {16, 2.1, 2}, {32, 1, 2}, {64, 4, 2}, {128, 1.9, 2}}) == 32);
  CHECK(best_limit({{8, 3, 2}, {16, 3, 2}}) == 0);
  CHECK(best_limit({{8, 1, 2}, {16, 1, 2}}) == all);
}
