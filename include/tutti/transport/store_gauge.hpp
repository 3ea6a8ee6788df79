// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Whether slots are better written past the caches, which this rank finds out by timing its own copies.
#pragma once

#include <chrono>
#include <cstddef>

namespace tutti::detail {

// A line that a core of another cache complex has read comes back to its writer slowly: 2.5 GB/s, where cores that share
// a third-level cache reach 7 to 48. Past the caches a slot is written at 29 to 39 GB/s and read at 14, whoever shares
// what. So streaming wins where plain copies fall below 5 GB/s, five times over, and loses elsewhere. A virtual machine
// moves between the two states within minutes, hence no measurement once and for all. (AMD EPYC, Zen 4, 2 cores.)
// The choice is this rank's alone: it changes no bit of any result.
class store_gauge {
 public:
  // How the next copy is done.
  struct trial {
    bool stream = false;
    bool timed = false;
    std::chrono::steady_clock::time_point begin{};
  };

  trial begin(std::size_t bytes) noexcept {
    if (bytes >= least_bytes && ++copies_ % (slow_ ? slow_period : period) == 0)
      return {.timed = true, .begin = std::chrono::steady_clock::now()};
    return {.stream = streams(bytes)};
  }
  void end(trial const& t, std::size_t bytes) noexcept {
    if (t.timed) took(std::chrono::steady_clock::now() - t.begin, bytes);
  }
  // What a timed copy took.
  void took(std::chrono::nanoseconds time, std::size_t bytes) noexcept {
    double const cost = static_cast<double>(time.count()) / static_cast<double>(bytes);
    if (cost > interrupted) return;
    cost_ += (cost - cost_) / 4;
    slow_ = cost_ > slow;
  }

  static constexpr std::size_t least_bytes = 4096;  // below it, the trip to memory costs more than the lines

  bool streams(std::size_t bytes) const noexcept { return slow_ && bytes >= least_bytes; }

 private:
  static constexpr unsigned period = 8;        // a timed copy costs 50 ns
  static constexpr unsigned slow_period = 64;  // and there what a plain one costs more
  static constexpr double slow = 0.2;          // ns a byte
  static constexpr double interrupted = 4;     // ns a byte: something else ran meanwhile

  unsigned copies_ = 0;
  double cost_ = 0;
  bool slow_ = false;
};

}  // namespace tutti::detail
