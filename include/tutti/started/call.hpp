// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A started call, shared by its handle and the queue of its communicator, and its continuations.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "tutti/call/pending_calls.hpp"
#include "tutti/core/light_lock.hpp"
#include "tutti/core/wait.hpp"
#include "tutti/started/buffer_check.hpp"
#include "tutti/started/follower.hpp"
#include "tutti/started/progress.hpp"
#include "tutti/started/tick_clock.hpp"

namespace tutti::detail {

class pending_call {
 public:
  // In progress from here on, driven by a queue, or by another call if there is none.
  explicit pending_call(pending_calls& queue) : queue_(&queue), begin_(tick_clock::now()) {}
  pending_call(pending_call const&) = delete;
  pending_call& operator=(pending_call const&) = delete;
  virtual ~pending_call() = default;

  bool ended() const noexcept { return ended_.load(); }
  // The exception of a call that has ended; null if it succeeded.
  std::exception_ptr const& thrown() const noexcept { return thrown_; }
  std::chrono::nanoseconds duration() const noexcept {
    return tick_clock::between(begin_, ended() ? end_ : tick_clock::now());
  }
  std::uint64_t sequence() const noexcept { return sequence_.load(std::memory_order_relaxed); }
  // The queue exists as long as the call has not ended.
  pending_calls* queue() const noexcept { return queue_; }
  // Whether it ends when calls of several queues have.
  virtual bool joins() const noexcept { return false; }

  // Adds a continuation. If the call has ended, this thread runs it at once; but see follower::run_due.
  void follow(std::shared_ptr<follower> const& f) noexcept {
    followers_.add(f);
    if (ended()) hand_on();  // it may have ended before the continuation was in the list
  }

  // -- If buffers are checked: a start throws if they are in use.
  void check(std::unique_ptr<buffers_in_use> buffers) noexcept { buffers_ = std::move(buffers); }
  template <class Start>
  void start_checked(Start&& start) {
    if (!buffers_) return start();
    buffers_->begin();
    try {
      start();
    } catch (...) {
      buffers_->leave();
      throw;
    }
  }

  // -- For an operation that is started repeatedly: its end must have been seen before the next start.
  bool end_was_seen() const noexcept { return seen_.load(std::memory_order_acquire); }
  void end_is_seen() noexcept { seen_.store(true, std::memory_order_release); }

 protected:
  enum begun_later { not_begun };
  // In progress, from begin_now() on.
  pending_call(pending_calls& queue, begun_later) : queue_(&queue) {}
  enum prepared_only { prepared };
  // In progress only from restart() on.
  pending_call(pending_calls* queue, prepared_only) : queue_(queue), ended_(true), seen_(true) {}

  void restart() noexcept {
    begin_ = tick_clock::now();
    thrown_ = nullptr;
    sequence_.store(0, std::memory_order_relaxed);
    seen_.store(false, std::memory_order_relaxed);
    set_in_order(ended_, false);
  }
  void number(std::uint64_t sequence) noexcept { sequence_.store(sequence, std::memory_order_relaxed); }
  void begin_now() noexcept { begin_ = tick_clock::now(); }
  void end(std::exception_ptr thrown, tick_clock::ticks when = tick_clock::now()) noexcept {
    thrown_ = std::move(thrown);
    if (buffers_) {
      if (thrown_) buffers_->leave();  // memory of a call that was given up may be gone
      else thrown_ = buffers_->end();
    }
    end_ = when;
    set_in_order(ended_, true);
    if (!followers_.empty()) hand_on();
  }

 private:
  void hand_on() noexcept {
    end_is_seen();
    followers_.make_due(thrown_);
  }

  pending_calls* queue_;
  std::unique_ptr<buffers_in_use> buffers_;  // null unless buffers are checked
  tick_clock::ticks begin_ = 0, end_ = 0;
  std::exception_ptr thrown_;
  std::atomic<std::uint64_t> sequence_{0};
  follower::list followers_;
  std::atomic<bool> ended_{false};
  std::atomic<bool> seen_{false};
};

class ended_call final : public pending_call {
 public:
  explicit ended_call(std::exception_ptr thrown) : pending_call(nullptr, prepared) { end(std::move(thrown)); }
};

// Continuations of calls that had already ended, and whose communicators may be gone.
class late_followers final : public pending_calls {
 public:
  static late_followers& of_process() {
    static late_followers* const all = new late_followers;  // some communicators end with the process
    return *all;
  }
  // These calls, whose communicator may be gone, if they count a continuation that this thread is running: then it is not, and a
  // blocking call there waits for further continuations too. Otherwise the late followers.
  static pending_calls& unless_counting(pending_calls* calls) {
    if (calls != nullptr && following::any_counted(calls)) return *calls;
    return of_process();
  }
  progress advance() noexcept override { return progress::stuck; }
  progress help() noexcept override { return progress::stuck; }
  // It runs on the thread on which it is due: this one, or another that gets to it. (If inlined into finish(), which never calls it,
  // g++ 12 would warn that `one` is null.)
  [[gnu::noinline]] bool wait(pending_call const* one, deadline until) override {
    for (idler rest; !one->ended(); rest.pause()) {
      if (until.passed()) return false;
      follower::run_due_here();
      progress_list::help();
    }
    return true;
  }
};

// Runs f once a call has succeeded. A blocking call on the communicator `refused` throws within it.
template <class F>
class continuation final : public pending_call, public follower {
 public:
  template <class G>
  continuation(pending_calls& queue, pending_calls const* refused, G&& f)
      : pending_call(queue), refused_(refused), f_(std::forward<G>(f)) {
    queue.count_follower();
  }

  void run(std::exception_ptr const& thrown) noexcept override {
    std::exception_ptr own = thrown;
    if (!own) {
      pending_calls::following const here(refused_, queue() == refused_);
      try {
        std::invoke(*f_);
      } catch (...) {
        own = std::current_exception();
      }
    }
    f_.reset();
    pending_calls* const calls = queue();
    end(std::move(own));
    calls->discount_follower();
  }

 private:
  pending_calls const* refused_;
  std::optional<F> f_;
};

}  // namespace tutti::detail
