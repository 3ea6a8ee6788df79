// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The started calls of a communicator as blocking calls see them: blocking calls wait for them first. started/queue.hpp
// implements it.
#pragma once

#include <atomic>
#include <concepts>
#include <cstddef>
#include <utility>

#include "tutti/core/error.hpp"
#include "tutti/core/wait.hpp"

namespace tutti::detail {

class pending_call;

// The calls of one communicator that were started and have not ended, in their order.
class pending_calls {
 public:
  virtual ~pending_calls() = default;
  // Progresses as far as possible without waiting.
  virtual progress advance() noexcept = 0;
  // The same, if this thread is allowed to and no other thread is doing it.
  virtual progress help() noexcept = 0;
  // After advance(), by a program that tests instead of waiting.
  virtual void count_test(progress) noexcept {}
  // Waits until `one`, or all if it is null, have ended; returns false once `until` has passed.
  virtual bool wait(pending_call const* one, deadline until) = 0;
  // Ends all calls without further progress, if they are of a communicator, which then has a fault for all ranks.
  virtual void give_up() noexcept {}
  // The same where the communicator has a fault, which is about to be thrown. Returns once no thread touches the memory of
  // these calls any more. The caller may hold the lock of another queue of the communicator that has stopped.
  virtual void stop() noexcept {}

  // The number of calls and of continuations. A thread that reads 0 sees all effects of those that have ended.
  std::size_t count() const noexcept { return count_.load(std::memory_order_acquire); }
  void finish() {
    if (following::any(this))
      throw error({.code = error_code::bad_argument,
                   .what = "a continuation (work::then) made a blocking call on the communicator of the call that it "
                           "follows, and so waits for itself",
                   .way_out = "start the call with tutti::async"});
    if (count() > 0) wait(nullptr, {});
  }

  // A continuation counts as a call until it has run.
  void count_follower() noexcept { count_.fetch_add(1, std::memory_order_relaxed); }
  void discount_follower() noexcept { count_.fetch_sub(1, std::memory_order_release); }
  // While this thread runs a continuation of one of these calls. `counted`: they count it, so they exist until it has run.
  class following {
   public:
    following(pending_calls const* calls, bool counted) noexcept
        : calls_(calls), counted_(counted), outer_(std::exchange(innermost_, this)) {}
    following(following const&) = delete;
    following& operator=(following const&) = delete;
    ~following() { innermost_ = outer_; }

    static bool any(pending_calls const* calls) noexcept {
      return any([&](following const& f) { return f.calls_ == calls; });
    }
    static bool any_counted(pending_calls const* calls) noexcept {
      return any([&](following const& f) { return f.calls_ == calls && f.counted_; });
    }

   private:
    template <std::predicate<following const&> F>
    static bool any(F&& is_wanted) noexcept {
      for (following const* f = innermost_; f != nullptr; f = f->outer_)
        if (is_wanted(*f)) return true;
      return false;
    }

    pending_calls const* calls_;
    bool counted_;
    following const* outer_;
    static inline thread_local following const* innermost_ = nullptr;
  };

 protected:
  std::atomic<std::size_t> count_{0};
};

}  // namespace tutti::detail
