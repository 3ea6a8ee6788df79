// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Continuations of started calls.
#pragma once

#include <atomic>
#include <exception>
#include <memory>
#include <utility>

#include "tutti/core/restored_flag.hpp"

namespace tutti::detail {

// Runs once, on the thread that has driven the call to its end, after that thread has released its locks. It keeps
// itself alive until then.
class follower {
 public:
  follower() = default;
  follower(follower const&) = delete;
  follower& operator=(follower const&) = delete;

  // Those of a call. Threads may add one while another makes all due.
  class list {
   public:
    bool empty() const noexcept { return last_.load() == nullptr; }
    void add(std::shared_ptr<follower> const& f) noexcept {
      f->self_ = f;
      f->next_ = last_.load(std::memory_order_relaxed);
      while (!last_.compare_exchange_weak(f->next_, f.get())) {
      }
    }
    // In the order in which they were added, on this thread. `thrown`: the exception of the call, or null.
    void make_due(std::exception_ptr const& thrown) noexcept {
      follower* in_order = nullptr;
      for (follower* f = last_.exchange(nullptr); f != nullptr;) {
        follower* const before = std::exchange(f->next_, in_order);
        in_order = f;
        f = before;
      }
      while (in_order != nullptr) {
        follower* const f = std::exchange(in_order, in_order->next_);
        f->become_due(thrown);
      }
    }

   private:
    std::atomic<follower*> last_{nullptr};
  };

  // Queues it on this thread, behind those that are due already.
  static void make_due(std::shared_ptr<follower> f) noexcept {
    follower& one = *f;
    one.self_ = std::move(f);
    one.become_due(nullptr);
  }
  // Runs the continuations that are due on this thread, and those that they make due, in order. A call from within a
  // continuation leaves them to the loop that runs it: otherwise a chain of calls that end at once would recurse ever
  // deeper.
  static void run_due() noexcept {
    if (first_ != nullptr && !runs_) run_due_here();
  }
  // The same from within a continuation, for one that waits there.
  static void run_due_here() noexcept {
    restored_flag const running(runs_);
    while (follower* const f = first_) {
      first_ = f->next_;
      auto const self = std::move(f->self_);
      f->run(f->thrown_);
    }
  }

  struct at_end {
    ~at_end() { run_due(); }
  };

  // While the result exists, run_due() leaves the continuations of this thread for later, because the thread holds a lock.
  static restored_flag postponing() noexcept { return restored_flag(runs_); }

 protected:
  ~follower() = default;

 private:
  // `thrown`: the exception of the call, or null.
  virtual void run(std::exception_ptr const& thrown) noexcept = 0;

  void become_due(std::exception_ptr const& thrown) noexcept {
    thrown_ = thrown;
    next_ = nullptr;
    (first_ == nullptr ? first_ : last_->next_) = this;
    last_ = this;
  }

  std::shared_ptr<follower> self_;
  follower* next_ = nullptr;  // in the list of its call, the one added before it; among those due, the one after it
  std::exception_ptr thrown_;

  static inline thread_local follower* first_ = nullptr;  // due on this thread
  static inline thread_local follower* last_ = nullptr;
  static inline thread_local bool runs_ = false;
};

}  // namespace tutti::detail
