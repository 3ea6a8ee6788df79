// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A queue of the calls or messages of a communicator that are in flight, driven by any thread that waits.
#pragma once

#include <atomic>
#include <mutex>
#include <sched.h>
#include <thread>

#include "tutti/call/engine.hpp"
#include "tutti/core/light_lock.hpp"
#include "tutti/core/wait.hpp"
#include "tutti/started/call.hpp"
#include "tutti/started/progress.hpp"

namespace tutti::detail {

// True at most once per nap_length; reads the clock at every 16th question only.
class once_per_nap {
 public:
  bool is_due() noexcept {
    if (++asked_ % 16 != 0 || !next_.passed()) return false;
    next_ = deadline::after(nap_length);
    return true;
  }

 private:
  unsigned asked_ = 0;
  deadline next_ = deadline::after(nap_length);
};

template <class Transport>
class call_queue : public pending_calls {
 public:
  call_queue(call_queue const&) = delete;
  call_queue& operator=(call_queue const&) = delete;

  progress advance() noexcept override {
    if (!engine_.process.is_this()) return progress::stuck;
    use_here();
    progress const reached = move_locked(false);
    follower::run_due();
    return reached;
  }
  progress help() noexcept final {
    if (!engine_.process.is_this()) return progress::stuck;
    if (!engine_.any_thread && std::this_thread::get_id() != thread_.load()) return progress::stuck;
    std::unique_lock const lock(busy_, std::try_to_lock);
    return lock ? move(false) : progress::stuck;
  }
  void count_test(progress reached) noexcept final { tests_.count(reached, engine_.transport().waits()); }
  // Takes the lock only if it is free: its holder may be about to stop this queue and then the caller's.
  void stop() noexcept final {
    auto const now = progress_list::moving();
    while (!stopped_.load(std::memory_order_acquire)) {
      if (std::unique_lock const lock(busy_, std::try_to_lock); lock) {
        stopped_.store(true, std::memory_order_release);
        end_all();
      } else {
        ::sched_yield();
      }
    }
  }

 protected:
  explicit call_queue(engine<Transport>& on) : engine_(on) {}

  // Under the lock: progresses as far as possible without waiting. `waits`: this thread will poll again.
  virtual progress move(bool waits) noexcept = 0;
  void give_up() noexcept override = 0;
  // Under the lock: ends all calls with the fault that the communicator has.
  [[gnu::cold]] virtual void end_all() noexcept = 0;

  // Under the lock, before calls of this queue end with an error: if that is a fault, they touch no memory from here on,
  // and neither do the calls of the other queue.
  [[gnu::cold]] void stop_others_if_faulty() noexcept {
    if (engine_.has_fault()) stopped_.store(true, std::memory_order_release);
    engine_.stop_in_flight_if_faulty();
  }

  // Tests first: an atomic exchange would wait until all stores have drained.
  [[gnu::always_inline]] void use_here() noexcept {
    if (auto const here = std::this_thread::get_id(); thread_.load(std::memory_order_relaxed) != here) thread_ = here;
  }
  // Called before the first start, which then cannot fail halfway for lack of memory.
  [[gnu::always_inline]] void list_in_process() {
    if (!listed_) [[unlikely]]
      list_now();
  }
  void count_started() noexcept {
    increase(count_, 1);
    progress_list::count_started();
  }
  void count_ended(std::size_t calls = 1) noexcept {
    decrease(count_, calls);
    progress_list::count_ended(calls);
  }

  // Like wait(), with the nap of wait_until_done.
  template <class Nap>
  bool wait_for(pending_call const* one, deadline until, Nap&& nap) {
    engine_.process.expect_this({});
    use_here();
    progress_list::waiter const here;
    auto const look = [&] {
      progress reached = move_locked(true);
      follower::run_due_here();
      if (reached == progress::stuck && one != nullptr && one->joins()) reached = progress_list::help();
      return (one != nullptr ? one->ended() : count() == 0) ? progress::done : reached;
    };
    return wait_until_done(look, engine_.transport().waits(), until, nap);
  }

  // Whether to examine the wait: asked while there is no progress.
  bool time_to_examine() noexcept { return examination_.is_due(); }

  // Called before destruction: waits, because the memory of the program is still in use; gives up during an exception,
  // after which that memory may be gone.
  void close() {
    if (engine_.unwinding.begun()) {
      give_up();
      follower::run_due();
    }
    finish();
    if (listed_) progress_list::of_process().remove(*this);
  }

  engine<Transport>& engine_;
  light_lock busy_;

 private:
  [[gnu::cold, gnu::noinline]] void list_now() {
    progress_list::of_process().add(*this);
    listed_ = true;
  }
  progress move_locked(bool waits) noexcept {
    std::lock_guard const lock(busy_);
    return move(waits);
  }

  tests_in_vain tests_;
  std::atomic<std::thread::id> thread_{std::this_thread::get_id()};  // the thread that used this communicator last
  std::atomic<bool> stopped_ = false;                                // a fault has ended all calls
  bool listed_ = false;
  once_per_nap examination_;
};

}  // namespace tutti::detail
