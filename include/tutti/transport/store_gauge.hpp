// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Decides whether to write slots with streaming stores, by timing this rank's own copies.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>

#include "tutti/transport/cache_lines.hpp"

namespace tutti::detail {

// A cache line that a core of another cache complex has read comes back to its writer slowly: 2.5 GB/s, against 7 to 48
// GB/s between cores that share a third-level cache. Streaming stores write a slot at 29 to 39 GB/s, and it is then
// read at 14 GB/s, whichever caches are shared. So streaming wins by a factor of five where plain copies fall below 5
// GB/s, and loses elsewhere. A virtual machine moves between the two states within minutes, so a single measurement at
// the start is not enough. (AMD EPYC, Zen 4, 2 cores.) On a mesh it never streams: although plain copies are slow there too, 4 to 16 KiB
// take 1.1 to 1.3 times as long with streaming stores (Emerald Rapids).
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
    if (!on_mesh && bytes >= min_bytes && ++copies_ % (slow_ ? slow_period : period) == 0)
      return {.timed = true, .begin = std::chrono::steady_clock::now()};
    return {.stream = streams(bytes)};
  }
  void end(trial const& t, std::size_t bytes) noexcept {
    if (t.timed) took(std::chrono::steady_clock::now() - t.begin, bytes);
  }
  // For copies of min_bytes_in_a_row up to min_bytes that follow each other: whether the next is neither timed nor streamed.
  bool is_plain_in_a_row() noexcept { return on_mesh || (++copies_in_a_row_ % period_in_a_row != 0 && !slow_); }
  // For one of them that is not, or a longer copy. The store buffer takes a short one at once, so a trial waits until it has drained.
  trial begin_in_a_row(std::size_t bytes) noexcept {
    if (bytes >= min_bytes) return begin(bytes);
    if (on_mesh || copies_in_a_row_ % period_in_a_row != 0) return {.stream = slow_};
    drain_stores();
    return {.timed = true, .begin = std::chrono::steady_clock::now()};
  }
  void end_in_a_row(trial const& t, std::size_t bytes) noexcept {
    if (t.timed && bytes < min_bytes) drain_stores();
    end(t, bytes);
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
  // the same if copies follow each other, so that such trips overlap. 64 messages of 2 KiB between cores that share no cache
  // take 28 us instead of 60
  static constexpr std::size_t min_bytes_in_a_row = 2048;

  bool streams(std::size_t bytes) const noexcept { return slow_ && bytes >= min_bytes; }
  bool streams_in_a_row(std::size_t bytes) const noexcept { return slow_ && bytes >= min_bytes_in_a_row; }

 private:
  static constexpr unsigned period = 8;              // a timed copy costs 50 ns
  static constexpr unsigned slow_period = 64;        // while streaming, because a timed plain copy costs more then
  static constexpr unsigned period_in_a_row = 1024;  // draining the store buffer costs up to 1 us
  static constexpr double slow = 0.2;                // ns per byte
  static constexpr double interrupted = 4;           // ns per byte; a slower copy was interrupted

  // Waits until the store buffer has drained, as every locked instruction does. ThreadSanitizer of gcc knows no fences.
  static void drain_stores() noexcept { drained_.exchange(true, std::memory_order_seq_cst); }

  static inline std::atomic<bool> drained_ = false;
  unsigned copies_ = 0, copies_in_a_row_ = 0;
  double cost_ = 0;
  bool slow_ = false;
};

}  // namespace tutti::detail
