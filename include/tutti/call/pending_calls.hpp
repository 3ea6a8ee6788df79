// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The started calls of a communicator, as blocking calls know them: they must end first. started/queue.hpp has the queues.
#pragma once

#include <atomic>
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

}  // namespace tutti::detail
