// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Work that completes when a stream of a device has reached a given place.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <exception>
#include <memory>
#include <mutex>
#include <source_location>
#include <utility>
#include <vector>

#include "tutti/core/error.hpp"
#include "tutti/core/unwinding.hpp"
#include "tutti/core/wait.hpp"
#include "tutti/device/model/device.hpp"
#include "tutti/device/watch/watch.hpp"
#include "tutti/started/follower.hpp"
#include "tutti/started/work.hpp"

namespace tutti::detail {

// A call that ends by itself, or as it is looked at.
class watched_work : public pending_call {
 public:
  using pending_call::pending_call;

  // Whether it has ended. Continuations that this makes due run later.
  virtual bool look() noexcept = 0;
  // Whether a look may start calls or messages of the host.
  virtual bool starts_calls() const noexcept { return false; }
  // Ends it at once.
  virtual void give_up() noexcept = 0;
};

[[noreturn, gnu::cold]] inline void refuse_captured(std::source_location where) {
  throw error({.code = error_code::bad_argument,
               .what = "work was asked for on a stream that is being captured into a graph, where nothing runs",
               .way_out = "ask for it after the launch of the graph, on the stream of the launch",
               .where = where});
}

// A watch knows of faults that end the work; it may be null. Throws error: bad_argument, if the stream is being captured.
template <marking_device D, class Watch = device_watch const>
class device_work final : public watched_work {
 public:
  device_work(pending_calls& queue, D const& on, Watch* watch, stream_of<D> stream, std::source_location where)
      : watched_work{queue}, mark_{on}, watch_{watch}, where_{where} {
    if (on.capturing(stream)) refuse_captured(where);
    mark_.record(stream);
  }

  // Whether the stream has reached the place. After a fault, earlier work of the stream may have been skipped.
  bool look() noexcept override {
    if (ended()) return true;
    try {
      bool const reached = mark_.reached();
      if (watch_ != nullptr) watch_->expect_no_fault(where_);
      if (reached) end(nullptr);
    } catch (...) {
      end(std::current_exception());
    }
    return ended();
  }
  void give_up() noexcept override {
    if (!ended())
      end(std::make_exception_ptr(error({.code = error_code::rank_left,
                                         .what = "the ranks of a stream were destroyed before its work was done",
                                         .way_out = "wait for the work first",
                                         .where = where_})));
  }

 private:
  device_event<D> mark_;
  Watch* watch_;
  std::source_location where_;
};

// Streams progress by themselves, so a queue only looks at works; any thread that waits in tutti does so. A thread that helps holds
// the lock of the list of queues, so it looks at works that may start calls once it has released that: as a continuation.
class device_works final : public pending_calls {
 public:
  device_works() = default;
  device_works(device_works const&) = delete;
  device_works& operator=(device_works const&) = delete;
  ~device_works() override {
    later_->detach();
    if (listed_) progress_list::of_process().remove(*this);
  }

  work add(std::shared_ptr<watched_work> const& one) {
    std::lock_guard const lock(busy_);
    if (!std::exchange(listed_, true)) progress_list::of_process().add(*this);
    progress_list::count_started();
    all_.push_back(one);
    return work(one);
  }

  progress advance() noexcept override {
    progress reached{};
    {
      std::lock_guard const lock(busy_);
      reached = move();
    }
    follower::run_due();
    return reached;
  }
  progress help() noexcept override {
    std::unique_lock const lock(busy_, std::try_to_lock);
    if (!lock) return progress::stuck;
    if (std::ranges::any_of(all_, [](auto const& one) { return one->starts_calls(); })) later_->make_due();
    return move([](auto const& one) { return !one->starts_calls(); });
  }
  bool wait(pending_call const* one, deadline until) override {
    progress_list::waiter const here;
    return wait_until_done(
        [&] {
          advance();
          if (one != nullptr ? one->ended() : nothing_left()) return progress::done;
          return progress_list::help();  // a work may wait for messages
        },
        patience_sharing_cores, until, sleep_for(idler::rest));
  }

  // Called before destruction: runs the continuations of all works, except for those that do not complete in time, or
  // during an exception.
  void close(std::chrono::nanoseconds most) {
    if (!unwinding_.begun() && wait(nullptr, deadline::after(most))) return;
    {
      std::lock_guard const lock(busy_);
      for (auto const& one : all_) one->give_up();
      static_cast<void>(move());
    }
    follower::run_due();
  }

 private:
  // Looks at all works outside of the lock of the list of queues.
  class later_look final : public follower {
   public:
    static std::shared_ptr<later_look> of(device_works& works) {
      auto out = std::make_shared<later_look>();
      out->works_ = &works;
      out->self_ = out;
      return out;
    }
    void make_due() {
      if (!due_.exchange(true)) follower::make_due(self_.lock());
    }
    void detach() noexcept {
      std::lock_guard const lock(using_);
      works_ = nullptr;
    }

   private:
    void run(std::exception_ptr const&) noexcept override {
      due_ = false;
      std::lock_guard const lock(using_);
      if (works_ != nullptr) works_->advance();
    }

    std::mutex using_;
    device_works* works_ = nullptr;
    std::weak_ptr<later_look> self_;
    std::atomic<bool> due_ = false;
  };

  // Under the lock.
  template <class Which>
  progress move(Which const& which) noexcept {
    auto const now = progress_list::moving();
    auto const later = follower::postponing();
    auto const ended = std::erase_if(all_, [&](auto const& one) { return which(one) && one->look(); });
    progress_list::count_ended(ended);
    return ended > 0 ? progress::moved : progress::stuck;
  }
  progress move() noexcept {
    return move([](auto const&) { return true; });
  }
  bool nothing_left() noexcept {
    std::lock_guard const lock(busy_);
    return all_.empty() && count() == 0;
  }

  std::mutex busy_;
  std::vector<std::shared_ptr<watched_work>> all_;  // works that have not completed
  std::shared_ptr<later_look> const later_ = later_look::of(*this);
  bool listed_ = false;
  unwinding unwinding_;
};

}  // namespace tutti::detail
