// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Times of calls in any unit, also longer than nanoseconds can count.
#include "tutti/core/time_limit.hpp"

#include <doctest/doctest.h>

#include <chrono>
#include <limits>

using std::chrono::nanoseconds;
using tutti::time_limit;

TEST_CASE("a time limit is a duration of any unit, and at most the greatest number of nanoseconds") {
  CHECK(time_limit().count() == 0);
  CHECK(time_limit(std::chrono::seconds(3)).count() == 3'000'000'000);
  CHECK(time_limit(std::chrono::duration<double>(0.5)).count() == 500'000'000);
  CHECK(time_limit(std::chrono::milliseconds(-1)).count() == -1'000'000);
  CHECK(time_limit(nanoseconds::max() - nanoseconds(1)) <= nanoseconds::max());
  CHECK(time_limit(nanoseconds::max()) == nanoseconds::max());
  CHECK(time_limit(std::chrono::seconds::max()) == nanoseconds::max());
  CHECK(time_limit(std::chrono::hours::max()) == nanoseconds::max());
  CHECK(time_limit(std::chrono::hours(24 * 365 * 400)) == nanoseconds::max());
  CHECK(time_limit(std::chrono::seconds::min()) == nanoseconds::min());
  using seconds = std::chrono::duration<double>;
  CHECK(time_limit(seconds(std::numeric_limits<double>::infinity())) == nanoseconds::max());
  CHECK(time_limit(seconds(std::numeric_limits<double>::quiet_NaN())) < nanoseconds(0));  // refused as a negative one
}
