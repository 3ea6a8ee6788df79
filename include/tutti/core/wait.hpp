// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// How threads wait: in the loop of calls, which spins, then yields, then naps, never past a deadline; and without a deadline.
#pragma once

#include <atomic>
#include <chrono>
#include <sched.h>
#include <thread>
#include <type_traits>

#include "tutti/core/background.hpp"

namespace tutti::detail {

// The time that this process was able to run. A job that is stopped (SIGSTOP, a debugger, a batch system) and resumed
// must not find that all its deadlines have passed.
class running_clock {
 public:
  using steady = std::chrono::steady_clock;
  using duration = steady::duration;
  using rep = steady::rep;
  using period = steady::period;
  using time_point = std::chrono::time_point<running_clock>;
  static constexpr bool is_steady = false;  // a thread that notices that the process was stopped sets it back
  // Of a longer pause, this much counts as running, so deadlines pass on the slowest of machines too.
  static constexpr duration longest_pause = std::chrono::milliseconds(200);

  static time_point now() noexcept {
    return time_point(steady::now().time_since_epoch() - duration(stopped_.load(std::memory_order_relaxed)));
  }

  // Measures the rests of a waiting thread, each of which takes milliseconds unless no thread of the process runs.
  class rest {
   public:
    // Ends the rest that began with the construction or with the last call.
    [[gnu::cold]] void end() noexcept {
      rep const now = steady::now().time_since_epoch().count();
      rep const other = awake_.exchange(now, std::memory_order_relaxed), last = other > begin_ ? other : begin_;
      rep const extra = now - last - longest_pause.count();
      if (extra > 0) stopped_.fetch_add(extra, std::memory_order_relaxed);
      begin_ = now;
    }

   private:
    rep begin_ = steady::now().time_since_epoch().count();
  };

 private:
  static inline std::atomic<rep> stopped_ = 0;
  static inline std::atomic<rep> awake_ = 0;  // when a thread was last known to run
};

class deadline {
 public:
  using clock = running_clock;

  deadline() = default;  // for ever

  // A duration beyond the range of the clock means for ever.
  static deadline after(clock::duration time) {
    auto const now = clock::now();
    return deadline(time > clock::time_point::max() - now ? clock::time_point::max() : now + time);
  }

  bool passed() const { return clock::now() >= end_; }
  void postpone(clock::duration time) {
    end_ = time > clock::time_point::max() - end_ ? clock::time_point::max() : end_ + time;
  }
  clock::duration left() const { return end_ - clock::now(); }

 private:
  explicit deadline(clock::time_point end) : end_(end) {}
  clock::time_point end_ = clock::time_point::max();
};

// A duration that starts at the first check, so a short wait does not read the clock, which takes 24 ns, a quarter of a
// small message. A process may be stopped between two checks while it does not rest, and a rank that makes progress is
// not checked; such pauses do not count either. Waits that share a limit pass it on by reference, since a pause may fall
// between them.
class countdown {
 public:
  explicit countdown(deadline::clock::duration time) : time_(time) {}

  bool passed() {
    auto const now = deadline::clock::now();
    if (!running_) end_ = deadline::after(time_);
    else if (now - checked_ > deadline::clock::longest_pause)
      end_.postpone(now - checked_ - deadline::clock::longest_pause);
    running_ = true;
    checked_ = now;
    return end_.passed();
  }

 private:
  deadline::clock::duration time_;
  deadline end_;
  deadline::clock::time_point checked_{};
  bool running_ = false;
};

// How long a rank spins and yields before it naps.
struct patience {
  int spins;                         // polls with a pause between them, for an answer within nanoseconds
  std::chrono::microseconds yields;  // then the core goes to any other thread, such as a peer on the same core
  // Whether one of the peers was last seen on the core of the calling thread, which the system may do to ranks on a busy machine
  // although there is a core for each. Then spinning only keeps that peer from running.
  bool (*share_core)(void const* peers) noexcept = nullptr;
  void const* peers = nullptr;
  // Whether a yield lets peers run. Linux divides time among sessions and control groups first, and a thread yields only to those of
  // its own.
  bool yields_reach_peers = true;
};

// With a core for each rank, spinning finds the answer first. With fewer cores, the peer that would answer may be
// waiting for this very core: 1,000 pauses before the first yield made an all-reduce ten times slower, 20 of them take
// 1.2 times as long as 5, and none at all 1.5 times, because a core is given away without need.
inline constexpr patience patience_with_cores{2000, std::chrono::microseconds{500}};
inline constexpr int spins_before_asking = 100;  // about 3 us: whether peers share this core
inline constexpr patience patience_sharing_cores{5, std::chrono::microseconds{2000}};
// A nap ends with a wake-up or after this time. A wake-up can be missed (see mailbox::ring), and dead peers wake no
// one.
inline constexpr std::chrono::microseconds nap_length{1000};

enum class progress { stuck, moved, done };

inline void pause_briefly() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// Rests between looks without success, for as long as it takes: pauses at first, then yields, and sleeps later.
class idler {
 public:
  void moved() noexcept { looks_ = 0; }
  void pause() noexcept {
    if (looks_ == most_looks) return std::this_thread::sleep_for(rest);
    if (++looks_ < patience_sharing_cores.spins) pause_briefly();
    else ::sched_yield();
  }
  static constexpr std::chrono::microseconds rest{50};

 private:
  static constexpr int most_looks = 200;
  int looks_ = 0;  // without success
};

// For programs that test in a loop instead of waiting: after as many tests in vain as a wait would spin, each leaves the core to
// others, such as the peer that would answer. Without that, each answer takes a time slice of the system where ranks share cores.
class tests_in_vain {
 public:
  // Threads may lose a test of each other.
  void count(progress reached, patience const& how) noexcept {
    int const before = reached == progress::stuck ? number_.load(std::memory_order_relaxed) : -1;
    if (before < how.spins) number_.store(before + 1, std::memory_order_relaxed);
    bool const asks = before >= spins_before_asking && how.share_core != nullptr;
    if (before >= how.spins || (asks && how.share_core(how.peers))) ::sched_yield();
  }

 private:
  std::atomic<int> number_{0};  // since there was progress
};

// A nap that takes this long, whatever becomes ready.
inline auto sleep_for(std::chrono::nanoseconds time) {
  return [time](auto const&) { std::this_thread::sleep_for(time); };
}

// Calls `poll` (returns progress) until it is done, then returns true. Returns false once the deadline has passed or
// `nap(ready)` returns false; it may also return nothing. `nap` sleeps briefly unless `ready()`, a poll, finds that there was
// progress. `until`, a deadline or countdown, is checked only while there is no progress.
template <class Poll, class Until, class Nap>
bool wait_until_done(Poll&& poll, patience how, Until&& until, Nap&& nap) {
  while (true) {
    progress last = poll();
    bool shares_core = false;
    for (int i = 1; last == progress::stuck && i < how.spins; ++i) {
      if (i == spins_before_asking && how.share_core != nullptr) {
        shares_core = how.share_core(how.peers);
        if (shares_core) break;
      }
      pause_briefly();
      last = poll();
    }
    if (last == progress::stuck) {  // no clock is read if spinning was enough
      auto const napping =
          deadline::after(shares_core && !how.yields_reach_peers ? std::chrono::microseconds{0} : how.yields);
      while (last == progress::stuck && !napping.passed()) {
        if (background_jobs.load(std::memory_order_relaxed) != 0) work_in_background();
        for (int i = 0; last == progress::stuck && i < 16; ++i) {
          ::sched_yield();
          last = poll();
        }
      }
    }
    auto const ready = [&] {
      if (last == progress::stuck) last = poll();
      return last != progress::stuck;
    };
    if (last == progress::stuck)  // `rest` reads the clock
      for (running_clock::rest rest; last == progress::stuck;) {
        work_in_background();
        if (until.passed()) return false;
        if constexpr (std::is_void_v<decltype(nap(ready))>) nap(ready);
        else if (!nap(ready)) return false;
        rest.end();
        if (last == progress::stuck) last = poll();
      }
    if (last == progress::done) return true;
  }
}

}  // namespace tutti::detail
