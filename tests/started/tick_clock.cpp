// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Durations by the counter of the processor agree with those of the system's clock.
#include <doctest/doctest.h>

#include <chrono>
#include <thread>

#include "tutti/started/tick_clock.hpp"

using tutti::detail::tick_clock;
using namespace std::chrono_literals;

TEST_CASE("ticks measure a time as the system's clock does") {
  using steady = std::chrono::steady_clock;
  auto const outer_begin = steady::now();
  tick_clock::ticks const begin = tick_clock::now();
  auto const inner_begin = steady::now();
  std::this_thread::sleep_for(20ms);
  auto const inner_end = steady::now();
  tick_clock::ticks const end = tick_clock::now();
  auto const outer_end = steady::now();

  auto const time = tick_clock::between(begin, end);
  CHECK(time > (inner_end - inner_begin) * 0.99);
  CHECK(time < (outer_end - outer_begin) * 1.01);
}

TEST_CASE("a duration does not change, and is not negative") {
  tick_clock::ticks const begin = tick_clock::now(), end = begin + 123'456'789;
  auto const time = tick_clock::between(begin, end);
  std::this_thread::sleep_for(5ms);
  CHECK(tick_clock::between(begin, end) == time);
  CHECK(tick_clock::between(end, begin) == 0ns);
}
