// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Progress of started calls: any thread that waits in tutti drives its own calls and all others of the process, and so
// does a progress_thread if the program has one.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "tutti/call/pending_calls.hpp"
#include "tutti/core/background.hpp"
#include "tutti/core/light_lock.hpp"
#include "tutti/core/process.hpp"
#include "tutti/core/restored_flag.hpp"
#include "tutti/core/wait.hpp"
#include "tutti/started/follower.hpp"

namespace tutti {
namespace detail {

inline thread_local bool in_progress_thread = false;

// The communicators of this process that have started calls. A thread that waits in one must drive the calls of the
// others too, because a peer may wait in another order.
class progress_list {
 public:
  static progress_list& of_process() {
    static constinit one_per_process<progress_list> list;
    return list.get();
  }

  void add(pending_calls& calls) {
    std::lock_guard const lock(changes_);
    list_.push_back(&calls);
    background_work.store([]() noexcept { help(); }, std::memory_order_release);
  }
  void remove(pending_calls& calls) noexcept {
    std::lock_guard const lock(changes_);
    std::erase(list_, &calls);
  }

  // The number of calls pending in this process. Most programs never have one, and touch nothing else here.
  static std::size_t pending() noexcept { return background_jobs.load(std::memory_order_relaxed); }
  static void count_started() noexcept {
    if (has_one_thread()) return increase(background_jobs, 1);  // there is no progress_thread to wake
    background_jobs.fetch_add(1);
    if (of_process().asleep_.load() > 0) of_process().wake();
  }
  // A call of this many bytes takes longer than to wake a thread from its nap, which takes several microseconds.
  static constexpr std::size_t large_bytes = 1 << 18;
  // After the start of a large call that has not ended yet.
  static void hurry() noexcept {
    if (of_process().napping_.load(std::memory_order_relaxed) > 0) of_process().wake();
  }
  static void count_ended(std::size_t calls) noexcept { decrease(background_jobs, calls); }

  // While one exists, a thread of the program waits and drives all calls, so the progress_thread would only be in its
  // way.
  class waiter {
   public:
    waiter() noexcept { increase(background_waiters, 1); }
    waiter(waiter const&) = delete;
    waiter& operator=(waiter const&) = delete;
    ~waiter() { decrease(background_waiters, 1); }
  };
  // Whether a thread will drive what is started now while the program computes.
  static bool has_thread() noexcept {
    return background_threads.load(std::memory_order_relaxed) > 0 && !in_progress_thread;
  }
  // A forked child may have ended more waits than it began.
  static bool has_waiter() noexcept {
    return static_cast<std::ptrdiff_t>(background_waiters.load(std::memory_order_relaxed)) > 0;
  }

  // Marks a thread that is driving calls, while the result exists: if it waits meanwhile, it drives no others.
  static restored_flag moving() noexcept { return restored_flag(moves_); }
  static progress help() noexcept {
    if (pending() == 0 || moves_) return progress::stuck;
    progress const reached = of_process().help_all();
    follower::run_due();
    return reached;
  }
  // For a progress_thread: sleeps until a call is started, or `stop`, followed by wake().
  void sleep(std::atomic<bool> const& stop) {
    std::unique_lock lock(sleeping_);
    asleep_.fetch_add(1);
    while (background_jobs.load() == 0 && !stop.load(std::memory_order_relaxed)) changed_.wait(lock);
    asleep_.fetch_sub(1);
  }
  // Sleeps this long, or until a large call is started, or wake().
  void nap(std::chrono::microseconds time) {
    std::unique_lock lock(sleeping_);
    napping_.fetch_add(1);
    changed_.wait_for(lock, time);
    napping_.fetch_sub(1);
  }
  void wake() noexcept {
    {
      std::lock_guard const lock(sleeping_);
    }  // a progress thread that has just checked either sleeps by now or will see the change
    changed_.notify_all();
  }

 private:
  progress help_all() noexcept {
    std::unique_lock const lock(changes_, std::try_to_lock);
    if (!lock) return progress::stuck;
    bool moved = false;
    for (pending_calls* const calls : list_) moved |= calls->help() == progress::moved;
    return moved ? progress::moved : progress::stuck;
  }

  static inline thread_local bool moves_ = false;
  // Held while calls are driven, so not by those who sleep: a start, which may wake them, holds a lock that driving takes.
  std::mutex changes_;
  std::mutex sleeping_;
  std::condition_variable changed_;
  std::atomic<int> asleep_{0}, napping_{0};  // progress threads
  std::vector<pending_calls*> list_;
};

}  // namespace detail

// While one exists, a thread drives the started calls and messages of this process, so that they progress while the
// program computes or makes other calls on the same communicators. It uses a core while they progress, and polls every 50
// us while they do not, or every millisecond once they have not for about half a second. While there are none, it polls for
// about 20 ms more, and then sleeps until one is started. It does not drive calls that only one thread may make: MPI, and
// the nodes of tutti::hierarchical, unless MPI was initialised with MPI_THREAD_MULTIPLE.
class progress_thread {
 public:
  progress_thread() : thread_([this] { drive(); }) {
    detail::background_threads.fetch_add(1, std::memory_order_relaxed);
  }
  progress_thread(progress_thread const&) = delete;
  progress_thread& operator=(progress_thread const&) = delete;
  ~progress_thread() {
    if (process_.is_this()) {
      detail::background_threads.fetch_sub(1, std::memory_order_relaxed);
      stop_.store(true, std::memory_order_relaxed);
      detail::progress_list::of_process().wake();
      thread_.join();
    } else {
      static_cast<void>(new std::thread(std::move(thread_)));  // a forked child has no such thread to join
    }
  }

 private:
  void drive() noexcept {
    detail::in_progress_thread = true;
    detail::progress_list& calls = detail::progress_list::of_process();
    detail::idler rest;
    // A program that starts one call after another does not wake this thread for each.
    constexpr int max_naps = 200;
    int naps = 0;
    constexpr int max_rests = 5000;  // of 50 us; then it looks every nap_length
    int rests = 0;                   // since there was progress, or another number of calls
    std::size_t before = 0;
    while (!stop_.load(std::memory_order_relaxed)) {
      if (detail::progress_list::pending() == 0) {
        if (++naps <= max_naps) calls.nap(detail::idler::rest);
        else calls.sleep(stop_);
        continue;
      }
      naps = 0;
      std::size_t const pending = detail::progress_list::pending();
      if (std::exchange(before, pending) != pending) rests = 0;
      bool const others_drive = detail::progress_list::has_waiter();
      if (!others_drive && detail::progress_list::help() == detail::progress::moved) {
        rest.moved();
        rests = 0;
      } else if (!others_drive && rests < max_rests) {
        rest.pause();
        ++rests;
      } else {
        calls.nap(detail::nap_length);
      }
    }
  }

  detail::owning_process const process_;
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

}  // namespace tutti
