// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The type of a time in the arguments and options of calls.
#pragma once

#include <chrono>
#include <type_traits>

namespace tutti {

// A duration in any unit, also a fraction such as 0.5s. A number without a unit is refused with a sentence. More than
// nanoseconds can count, which are 292 years, is the greatest number of them.
struct time_limit : std::chrono::nanoseconds {
  constexpr time_limit() : duration(0) {}
  template <class Count, class Unit>
  constexpr time_limit(std::chrono::duration<Count, Unit> time) : duration(nearest(time)) {}
  template <class Number>
    requires std::is_arithmetic_v<Number>
  constexpr time_limit(Number) {
    static_assert(!std::is_arithmetic_v<Number>,
                  "a number is not a time; give a duration such as 3s (using namespace std::chrono_literals) or "
                  "std::chrono::milliseconds(200)");
  }

 private:
  template <class Time>
  static constexpr std::chrono::nanoseconds nearest(Time time) {
    using std::chrono::nanoseconds;
    std::chrono::duration<double, std::nano> const about = time, most = nanoseconds::max(), least = nanoseconds::min();
    if (about >= most) return nanoseconds::max();
    if (!(about > least)) return nanoseconds::min();  // or not a number
    return std::chrono::duration_cast<nanoseconds>(time);
  }
};

}  // namespace tutti
