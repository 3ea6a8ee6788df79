// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Decides whether to write slots with streaming stores, by timing this rank's own copies.
#pragma once

#include <chrono>
#include <cstddef>

namespace tutti::detail {

// A cache line that a core of another cache complex has read comes back to its writer slowly: 2.5 GB/s, against 7 to 48
// GB/s between cores that share a third-level cache. Streaming stores write a slot at 29 to 39 GB/s, and it is then
// read at 14 GB/s, whichever caches are shared. So streaming wins by a factor of five where plain copies fall below 5
// GB/s, and loses elsewhere. A virtual machine moves between the two states within minutes, so a single measurement at
// the start is not enough. (AMD EPYC, Zen 4, 2 cores.)
// The choice affects only this rank and changes no bit of any result.
class store_gauge {
 public:
  // How to do the next copy.
  struct trial {
    bool stream = false;
    bool timed = false;
    std::chrono::steady_clock::time_point begin{};
  };

  trial begin(std::size_t bytes) noexcept {
    if (bytes >= min_bytes && ++copies_ % (slow_ ? slow_period : period) == 0)
      return {.timed = true, .begin = std::chrono::steady_clock::now()};
    return {.stream = streams(bytes)};
  }
  void end(trial const& t, std::size_t bytes) noexcept {
    if (t.timed) took(std::chrono::steady_clock::now() - t.begin, bytes);
  }
  // Reports the duration of a timed copy.
  void took(std::chrono::nanoseconds time, std::size_t bytes) noexcept {
    double const cost = static_cast<double>(time.count()) / static_cast<double>(bytes);
    if (cost > interrupted) return;
    cost_ += (cost - cost_) / 4;
    slow_ = cost_ > slow;
  }

  // below it, a trip to memory costs more than the transfer of the lines
  static constexpr std::size_t min_bytes = 4096;

  bool streams(std::size_t bytes) const noexcept { return slow_ && bytes >= min_bytes; }

 private:
  static constexpr unsigned period = 8;        // a timed copy costs 50 ns
  static constexpr unsigned slow_period = 64;  // while streaming, because a timed plain copy costs more then
  static constexpr double slow = 0.2;          // ns per byte
  static constexpr double interrupted = 4;     // ns per byte; a slower copy was interrupted

  unsigned copies_ = 0;
  double cost_ = 0;
  bool slow_ = false;
};

}  // namespace tutti::detail
