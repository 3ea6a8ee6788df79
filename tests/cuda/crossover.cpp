// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The limits that benchmarks on a GPU print.
#include "../../bench/crossover.hpp"

#include <doctest/doctest.h>

#include <string>

#include "tutti/tune/text.hpp"

using tutti::bench::best_limit;

TEST_CASE("a limit is where the ways cross, whatever a single time says") {
  constexpr auto all = static_cast<std::size_t>(-1);
  CHECK(best_limit({}) == 0);
  CHECK(best_limit({{8, 1, 2}, {16, 1, 2}, {32, 3, 2}, {64, 4, 2}}) == 16);
  CHECK(best_limit({{8, 1, 2}, {16, 2.1, 2}, {32, 1, 2}, {64, 4, 2}, {128, 1.9, 2}}) == 32);
  CHECK(best_limit({{8, 3, 2}, {16, 3, 2}}) == 0);
  CHECK(best_limit({{8, 1, 2}, {16, 1, 2}}) == all);
}

TEST_CASE("a tuning table takes the lines") {
  using namespace tutti::detail;
  for (auto const& [name, value] : every_device_limit)
    for (std::size_t const limit : {std::size_t{0}, std::size_t{4096}, tutti::device_limits::no_limit}) {
      std::string const line = tutti::bench::limit_line(name, limit);
      CAPTURE(line);
      CHECK(parse_table(std::string(tuning_version) + "\n" + line, "lines").devices.*value == limit);
    }
}

TEST_CASE("processes that share a GPU have no limits") {
  using tutti::bench::why_no_limit;
  CHECK(why_no_limit("processes one_shot", 8, 8).empty());
  CHECK(why_no_limit("processes one_shot_of_2", 2, 8).empty());
  CHECK(why_no_limit("processes one_shot_of_2", 2, 1) ==
        "no limit `processes one_shot_of_2`: 2 processes on 1 GPU take turns, which would be most of the time");
  CHECK(!why_no_limit("processes one_shot", 8, 7).empty());
}
