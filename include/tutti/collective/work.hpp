// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// work: a call that was started and may not have ended yet.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <exception>
#include <memory>
#include <optional>
#include <span>
#include <utility>

#include "tutti/collective/progress.hpp"
#include "tutti/core/wait.hpp"

namespace tutti {
namespace detail {

// What a handle and the queue of a communicator share of a call.
class pending_call {
 public:
  using clock = deadline::clock;

  explicit pending_call(pending_calls& queue) : queue_(queue) {}
  pending_call(pending_call const&) = delete;
  pending_call& operator=(pending_call const&) = delete;
  virtual ~pending_call() = default;

  bool ended() const noexcept { return ended_.load(std::memory_order_acquire); }
  // Of a call that has ended; null where it went well.
  std::exception_ptr const& thrown() const noexcept { return thrown_; }
  clock::duration duration() const noexcept { return (ended() ? end_ : clock::now()) - begin_; }
  // As long as it has not ended.
  pending_calls& queue() const noexcept { return queue_; }

 protected:
  void begin_now() noexcept { begin_ = clock::now(); }
  void end(std::exception_ptr thrown, clock::time_point when = clock::now()) noexcept {
    thrown_ = std::move(thrown);
    end_ = when;
    ended_.store(true, std::memory_order_release);
  }

 private:
  pending_calls& queue_;
  clock::time_point begin_ = clock::now(), end_{};
  std::exception_ptr thrown_;
  std::atomic<bool> ended_{false};
};

}  // namespace detail

// What a collective on tutti::async(comm) returns. Copies are handles of one call. Dropping them all does not end it: the
// memory that it was given must stay, what it reads unchanged and what it writes untouched, until it has ended.
// A call goes on while its rank waits in tutti for anything, tests any work, or has a progress_thread.
class work {
 public:
  work() = default;  // of a call that has ended
  explicit work(std::shared_ptr<detail::pending_call> call) : call_(std::move(call)) {}

  // Moves what was started, and says whether this call has ended. Throws what it has ended with.
  bool test() {
    advance();
    if (!done()) detail::progress_list::help();  // a peer may wait for another
    return done() && finish();
  }
  // Until the call has ended. Throws what it has ended with: what the blocking call would throw. Where its time
  // (options::timeout, counted from the first look of its turn that found it waiting for long) has passed, that is error:
  // timeout.
  void wait() { wait_until({}); }
  // The same for `most`, which is looked at while nothing moves. Whether the call has ended; it goes on if not.
  bool wait(std::chrono::nanoseconds most) { return wait_until(deadline::after(most)); }

  // Moves the calls of this work's communicator, and throws nothing.
  void advance() {
    if (!done()) call_->queue().advance();
  }
  bool done() const noexcept { return !call_ || call_->ended(); }
  // What the call has ended with; null where it went well, or goes on.
  std::exception_ptr exception() const noexcept { return call_ && call_->ended() ? call_->thrown() : nullptr; }
  // From the start to the end, or until now.
  std::chrono::nanoseconds duration() const noexcept { return call_ ? call_->duration() : std::chrono::nanoseconds(0); }

 private:
  bool wait_until(deadline until) { return (done() || call_->queue().wait(call_.get(), until)) && finish(); }
  bool finish() const {
    if (call_ && call_->thrown()) std::rethrow_exception(call_->thrown());
    return true;
  }

  std::shared_ptr<detail::pending_call> call_;
};

// Until all have ended. Throws what the first of the list that went wrong has ended with, when all have ended.
inline void wait_for_all(std::span<work> all) {
  std::exception_ptr first;
  for (work& w : all) {
    try {
      w.wait();
    } catch (...) {
      if (!first) first = std::current_exception();
    }
  }
  if (first) std::rethrow_exception(first);
}

// Until one has ended: its place in the list, the first if several have. None of an empty list. Throws what it has ended
// with.
inline std::optional<std::size_t> wait_for_any(std::span<work> all) {
  if (all.empty()) return {};
  detail::progress_list::attendance const here;
  for (detail::idler rest;; rest.pause()) {
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (!all[i].done()) continue;
      all[i].wait();
      return i;
    }
    for (work& w : all) w.advance();
    if (detail::progress_list::help() == progress::moved) rest.moved();
  }
}

}  // namespace tutti
