// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A clock that takes nothing to read, for durations that hardly any program asks for.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>

namespace tutti::detail {

// The counter of the processor that std::chrono::steady_clock is based on. To read that clock takes 25 ns, twice per message a fifth of
// the time of a small one, because it waits for all instructions before it. The rate of the counter is measured when a duration is first
// asked for. It is then the same for all, so a duration does not change from one question to the next. Other processors use the clock.
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
  static instant look() noexcept { return {now(), steady::now()}; }

  // Waits until the time that passed since the start of the program is long enough for a precision of 0.01 %, which it nearly always is.
  [[gnu::cold]] static double nanoseconds_per_tick() noexcept {
    if (double const known = rate_.load(std::memory_order_relaxed); known != 0) return known;
    instant last = look();
    while (last.time - first_.time < std::chrono::milliseconds(1)) last = look();
    double const time = std::chrono::duration<double, std::nano>(last.time - first_.time).count();
    double unknown = 0;
    double const rate = time / static_cast<double>(last.at - first_.at);
    return rate_.compare_exchange_strong(unknown, rate, std::memory_order_relaxed) ? rate : unknown;
  }

  static inline std::atomic<double> rate_ = 0;
  static inline instant const first_ = look();
};

}  // namespace tutti::detail
