// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Who moves calls that were started: whoever waits in tutti, for his calls and for all others of the process, and, where it
// was asked for, a thread.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <mutex>
#include <sched.h>
#include <stop_token>
#include <thread>
#include <utility>
#include <vector>

#include "tutti/call/follower.hpp"
#include "tutti/core/background.hpp"
#include "tutti/core/error.hpp"
#include "tutti/core/wait.hpp"

namespace tutti {
namespace detail {

class pending_call;

// The calls of one communicator that were started and have not ended, in their order.
class pending_calls {
 public:
  virtual ~pending_calls() = default;
  // Goes as far as it can without waiting.
  virtual progress advance() noexcept = 0;
  // The same, where this thread may, and no other does it just now.
  virtual progress help() noexcept = 0;
  // Until `one`, or all where it is null, has ended: true. False once `until` has passed.
  virtual bool wait(pending_call const* one, deadline until) = 0;

  // How many there are, with what follows them. Who sees none sees all that they have done.
  std::size_t count() const noexcept { return count_.load(std::memory_order_acquire); }
  void finish() {
    if (following::any(this))
      throw error(
          {.code = error_code::bad_argument,
           .what = "what follows a call (work::then) waits for the communicator of that call, and so for itself",
           .way_out = "start the call by tutti::async"});
    if (count() > 0) wait(nullptr, {});
  }

  // What follows a call is one more of them until it has run.
  void count_follower() noexcept { count_.fetch_add(1, std::memory_order_relaxed); }
  void discount_follower() noexcept { count_.fetch_sub(1, std::memory_order_release); }
  // While this thread runs what follows one.
  class following {
   public:
    explicit following(pending_calls const* calls) noexcept : calls_(calls), outer_(std::exchange(innermost_, this)) {}
    following(following const&) = delete;
    following& operator=(following const&) = delete;
    ~following() { innermost_ = outer_; }

    static bool any(pending_calls const* calls) noexcept {
      for (following const* f = innermost_; f != nullptr; f = f->outer_)
        if (f->calls_ == calls) return true;
      return false;
    }

   private:
    pending_calls const* calls_;
    following const* outer_;
    static inline thread_local following const* innermost_ = nullptr;
  };

 protected:
  std::atomic<std::size_t> count_{0};
};

// Between looks that found nothing: yields at first, and sleeps later.
class idler {
 public:
  void moved() noexcept { looks_ = 0; }
  void pause() noexcept {
    if (++looks_ < 200) ::sched_yield();
    else std::this_thread::sleep_for(rest);
  }
  static constexpr std::chrono::microseconds rest{50};

 private:
  int looks_ = 0;
};

// The communicators of this process that have started calls. Whoever waits in one must move those of the others: a peer may
// wait in another order.
class progress_list {
 public:
  static progress_list& of_process() {
    static progress_list* const list = new progress_list;  // some communicators end with the process
    return *list;
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

  // How many calls of the process are pending. Most programs never have one, and touch nothing else here.
  static std::size_t pending() noexcept { return background_jobs.load(std::memory_order_relaxed); }
  void count_started() {
    if (background_jobs.fetch_add(1, std::memory_order_relaxed) > 0) return;
    {
      std::lock_guard const lock(changes_);
    }  // whoever has just looked sleeps by now, or will see it
    started_.notify_all();
  }
  void count_ended() noexcept { background_jobs.fetch_sub(1, std::memory_order_relaxed); }

  // While one lives, a thread of the program's waits and moves all calls: another would only be in its way.
  class attendance {
   public:
    attendance() noexcept { attended_.fetch_add(1, std::memory_order_relaxed); }
    attendance(attendance const&) = delete;
    attendance& operator=(attendance const&) = delete;
    ~attendance() { attended_.fetch_sub(1, std::memory_order_relaxed); }
  };
  static bool attended() noexcept { return attended_.load(std::memory_order_relaxed) > 0; }

  // On a thread that moves calls just now: what it waits for meanwhile moves no others.
  class moving {
   public:
    moving() noexcept : before_(std::exchange(moves_, true)) {}
    moving(moving const&) = delete;
    moving& operator=(moving const&) = delete;
    ~moving() { moves_ = before_; }

   private:
    bool before_;
  };
  static progress help() noexcept {
    if (pending() == 0 || moves_) return progress::stuck;
    progress const reached = of_process().help_all();
    follower::run_due();
    return reached;
  }
  // Until there is something to do, or stopped.
  void wait_for_calls(std::stop_token const& stop) {
    std::unique_lock lock(changes_);
    started_.wait(lock, stop, [] { return pending() > 0; });
  }

 private:
  progress_list() = default;

  progress help_all() noexcept {
    std::unique_lock const lock(changes_, std::try_to_lock);
    if (!lock) return progress::stuck;
    bool moved = false;
    for (pending_calls* const calls : list_) moved |= calls->help() == progress::moved;
    return moved ? progress::moved : progress::stuck;
  }

  static inline std::atomic<int> attended_{0};
  static inline thread_local bool moves_ = false;
  std::mutex changes_;
  std::condition_variable_any started_;
  std::vector<pending_calls*> list_;
};

inline thread_local bool in_progress_thread = false;

}  // namespace detail

// While one lives, a thread moves this process's calls and messages that were started, so that they go on while the program
// computes, or does anything else with the same communicators. It takes a core while they move, looks every 50 us while they
// do not, and sleeps while there are none. It leaves alone what only one thread may call: MPI, and the nodes of
// tutti::hierarchical, unless MPI was initialised with MPI_THREAD_MULTIPLE.
class progress_thread {
 public:
  progress_thread()
      : thread_([](std::stop_token const& stop) {
          detail::in_progress_thread = true;
          detail::idler rest;
          while (!stop.stop_requested()) {
            detail::progress_list::of_process().wait_for_calls(stop);
            if (detail::progress_list::attended()) std::this_thread::sleep_for(detail::nap_length);
            else if (detail::progress_list::help() == detail::progress::moved) rest.moved();
            else rest.pause();
          }
        }) {}

 private:
  std::jthread thread_;
};

}  // namespace tutti
