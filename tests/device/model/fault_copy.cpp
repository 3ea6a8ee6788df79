// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// When loops that poll look for a fault.
#include "tutti/device/model/fault_copy.hpp"

#include <doctest/doctest.h>

#include <cstdint>

using namespace tutti::detail;

TEST_CASE("an interval passes once, and not when the clock is set back") {
  constexpr std::uint64_t start = 1'000'000, interval = fault_copy::interval;
  interval_timer timer;
  CHECK(!timer.due(start));
  CHECK(!timer.due(start - 5));
  CHECK(!timer.due(start + interval));
  CHECK(timer.due(start + interval + 1));
  CHECK(!timer.due(start + interval + 2));
  timer.restart();
  CHECK(!timer.due(start + 10 * interval));
}
