// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A clock that is fast to read, for durations that hardly any program asks for.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <limits>

namespace tutti::detail {

// The time-stamp counter of x86. std::chrono::steady_clock takes 25 ns to read; the two reads of a message were a fifth of the time of a
// small one. The rate of the counter is measured when a duration is first asked for. It is then the same for all, so a duration does not
// change from one question to the next. For statistics only, never for deadlines: on a system that does not trust its counters,
// because those of its processors differ, durations may be wrong. Other processors use steady_clock.
class tick_clock {
 public:
  using ticks = std::int64_t;

  static ticks now() noexcept {
#if defined(__x86_64__)
    return static_cast<ticks>(__builtin_ia32_rdtsc());
#else
    return steady::now().time_since_epoch().count();
#endif
  }
  // Not negative, though counters of two cores may differ by a few ticks.
  static std::chrono::nanoseconds between(ticks begin, ticks end) noexcept {
    double const time = static_cast<double>(std::max<ticks>(end - begin, 0)) * nanoseconds_per_tick();
    return std::chrono::nanoseconds(static_cast<std::chrono::nanoseconds::rep>(time));
  }

 private:
  using steady = std::chrono::steady_clock;

  struct instant {
    ticks at;
    steady::time_point time;
  };
  // The clock is read between two readings of the counter: the closest pair of several, because a thread may be interrupted.
  [[gnu::cold]] static instant look() noexcept {
    instant out{};
    ticks least = std::numeric_limits<ticks>::max();
    for (int i = 0; i < 4; ++i) {
      ticks const before = now();
      auto const time = steady::now();
      ticks const passed = now() - before;
      if (passed < least) least = passed, out = {before + passed / 2, time};
    }
    return out;
  }

  // Measures for 1 ms, to a precision of 0.1 %. An average over a longer time may contain pauses that only one of the clocks counts.
  [[gnu::cold]] static double nanoseconds_per_tick() noexcept {
    if (double const known = rate_.load(std::memory_order_relaxed); known != 0) return known;
    instant const begin = look();
    instant end = look();
    while (end.time - begin.time < std::chrono::milliseconds(1)) end = look();
    auto const ticks_passed = static_cast<double>(std::max<ticks>(end.at - begin.at, 1));
    double const rate = std::chrono::duration<double, std::nano>(end.time - begin.time).count() / ticks_passed;
    double unknown = 0;
    return rate_.compare_exchange_strong(unknown, rate, std::memory_order_relaxed) ? rate : unknown;
  }

  static inline std::atomic<double> rate_ = 0;
};

}  // namespace tutti::detail
