// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Watches streams that wait for other ranks, because a stream cannot give up by itself. A thread detects ranks that are
// late, gone or in another call, and releases all streams when there is a fault.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>
#include <source_location>
#include <string>
#include <unordered_map>
#include <vector>

#include "tutti/core/error.hpp"
#include "tutti/core/function_ref.hpp"
#include "tutti/core/stoppable_thread.hpp"
#include "tutti/core/wait.hpp"
#include "tutti/device/watch/board.hpp"
#include "tutti/device/watch/calls.hpp"
#include "tutti/transport/system/process_watch.hpp"

namespace tutti::detail {

// A call that the stream of this rank may be in.
struct watched_call {
  std::chrono::nanoseconds timeout{};
  bool captured = false;                  // in a graph, which may replay it at any time
  bool kernels_wait = false;              // for each other, and no word tells for whom
  bool all_hear_all = true;               // so no rank can end it before all have begun it
  std::uint64_t sequence = 0;             // the number of this rank's last such call
  bool again = false;                     // seen again since it was among the oldest
  std::vector<std::uint32_t> expected{};  // by rank: the value of its word `ready` in this call; 0: not awaited
};

// The rank's stream runs one call after the other, and records the current one on the board. Kernels that follow
// a wait do nothing once the board has a fault, so a released stream changes no memory.
class device_watch {
 public:
  // `peers`: watches of ranks in other processes.
  device_watch(device_board const& board, int rank, std::vector<process_watch> peers);

  // Called before the stream may be in the call. expected(q) is what watched_call::expected has for rank q.
  void know(std::uint32_t call, watched_call const& now, function_ref<std::uint32_t(int)> expected);

  bool faulty() const noexcept { return board_.faulty(); }
  void expect_no_fault(std::source_location where) const {
    if (faulty()) throw fault_found(where);
  }
  [[noreturn, gnu::cold]] void raise(fault const& f, std::source_location where) const;

  // Throws if a kernel of this rank has given up.
  void expect_no_report(std::source_location where) const;

  // Throws if another rank's program makes a different call at the same place in the sequence.
  void expect_same_call(std::uint64_t sequence, std::uint32_t call, std::source_location where) const;

  // The first fault of all ranks, as an error of this one.
  [[gnu::cold]] error fault_found(std::source_location where) const;

 private:
  static constexpr std::size_t max_known = 4096;  // more than streams take at once
  static constexpr std::chrono::milliseconds look_every{10};
  static constexpr std::chrono::microseconds release_every{100};
  // A stream that has not progressed for this long waits for another rank, rather than running a kernel.
  static constexpr std::chrono::milliseconds standing{40}, standing_long{1000};

  void run();
  // Writes the words that its stream waits for.
  void release() const noexcept;
  void examine();

  // The words by which other ranks have announced their data to this one.
  std::vector<std::array<std::uint32_t, 2>> announced_words() const;
  bool left(int q) const noexcept { return board_.rank(q).status.load() == presence::left; }
  // Whether this rank's stream is waiting for rank q.
  bool awaits(int q, watched_call const& call) const noexcept;
  // Whether the program of rank q has made the call that this rank's stream is in. A replayed graph does not count its
  // calls.
  bool has_made(int q, watched_call const& call) const noexcept {
    return !call.captured && board_.rank(q).called.load() >= call.sequence;
  }

  // Whether a rank that has left may have taken part in this call before, although this rank still waits for it, or for others.
  static bool may_have_left_after(watched_call const& call) noexcept {
    return call.kernels_wait && call.captured && !call.all_hear_all;
  }

  // What a kernel of this rank has reported.
  std::optional<fault> reported() const;
  fault timeout_of(watched_call const& call) const;
  static std::string way_out(error_code code);

  void forget_oldest();

  device_board board_;
  int rank_;
  recorded_calls recorded_;
  std::vector<process_watch> peers_;
  std::mutex guard_;
  std::unordered_map<std::uint32_t, watched_call> known_;
  std::deque<std::uint32_t> ages_;
  std::uint32_t call_ = 0, beat_ = 0;  // the last state that was seen, and since when
  deadline::clock::time_point since_{};
  std::vector<std::array<std::uint32_t, 2>> announced_;
  deadline::clock::time_point announced_since_{};
  stoppable_thread thread_;  // the last member: it uses all others
};

}  // namespace tutti::detail

#if !defined(TUTTI_COMPILED)
#include "tutti/device/watch/watch_impl.hpp"
#endif
