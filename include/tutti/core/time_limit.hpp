// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The type of a time in the arguments and options of calls.
#pragma once

#include <chrono>
#include <type_traits>

namespace tutti {

// A duration in any unit, also a fraction such as 0.5s. A number without a unit is refused with a sentence.
struct time_limit : std::chrono::nanoseconds {
  constexpr time_limit() : duration(0) {}
  template <class Count, class Unit>
  constexpr time_limit(std::chrono::duration<Count, Unit> time)
      : duration(std::chrono::duration_cast<std::chrono::nanoseconds>(time)) {}
  template <class Number>
    requires std::is_arithmetic_v<Number>
  constexpr time_limit(Number) {
    static_assert(!std::is_arithmetic_v<Number>,
                  "a number is not a time; give a duration such as 3s (using namespace std::chrono_literals) or "
                  "std::chrono::milliseconds(200)");
  }
};

}  // namespace tutti
