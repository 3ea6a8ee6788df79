// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What follows the end of a call that was started.
#pragma once

#include <exception>
#include <memory>
#include <utility>

namespace tutti::detail {

// It runs once, on the thread that has moved the call to its end, when that holds no lock any more. It keeps itself until
// then.
class follower {
 public:
  follower() = default;
  follower(follower const&) = delete;
  follower& operator=(follower const&) = delete;

  // On this thread, after what is due already.
  static void make_due(std::shared_ptr<follower> f) noexcept {
    follower& one = *f;
    one.self_ = std::move(f);
    one.become_due(nullptr);
  }
  // Runs what this thread has seen the end of, and what follows from that, in this order. Within one of those that is left to
  // the loop that runs it: a chain that starts itself would go deeper with each call that ends at once.
  static void run_due() noexcept {
    if (!runs_) run_due_here();
  }
  // The same within one, for who waits there.
  static void run_due_here() noexcept {
    bool const before = std::exchange(runs_, true);
    while (follower* const f = first_) {
      first_ = f->next_;
      auto const self = std::move(f->self_);
      f->run(f->thrown_);
    }
    runs_ = before;
  }

  struct at_end {
    ~at_end() { run_due(); }
  };

 protected:
  ~follower() = default;

 private:
  friend class pending_call;

  // `thrown`: what the call has ended with.
  virtual void run(std::exception_ptr const& thrown) noexcept = 0;

  void become_due(std::exception_ptr const& thrown) noexcept {
    thrown_ = thrown;
    next_ = nullptr;
    (first_ == nullptr ? first_ : last_->next_) = this;
    last_ = this;
  }

  std::shared_ptr<follower> self_;
  follower* next_ = nullptr;
  std::exception_ptr thrown_;

  static inline thread_local follower* first_ = nullptr;  // due on this thread
  static inline thread_local follower* last_ = nullptr;
  static inline thread_local bool runs_ = false;
};

}  // namespace tutti::detail
