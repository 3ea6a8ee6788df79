// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Work that completes when a stream of a device has reached a given place.
#pragma once

#include <chrono>
#include <exception>
#include <memory>
#include <mutex>
#include <source_location>
#include <vector>

#include "tutti/core/unwinding.hpp"
#include "tutti/core/wait.hpp"
#include "tutti/device/model/device.hpp"
#include "tutti/device/watch/watch.hpp"
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

[[noreturn, gnu::cold]] void refuse_captured(std::source_location where);
// The error of work whose ranks are destroyed before it is done.
[[gnu::cold]] std::exception_ptr destroyed_before_done(std::source_location where) noexcept;

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
    if (!ended()) end(destroyed_before_done(where_));
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
  device_works();
  device_works(device_works const&) = delete;
  device_works& operator=(device_works const&) = delete;
  ~device_works() override;

  work add(std::shared_ptr<watched_work> const& one);

  progress advance() noexcept override;
  progress help() noexcept override;
  bool wait(pending_call const* one, deadline until) override;

  // Called before destruction: runs the continuations of all works, except for those that do not complete in time, or
  // during an exception.
  void close(std::chrono::nanoseconds most);

 private:
  class later_look;

  // Under the lock. Looks at all works, or only at those that start no calls.
  progress move(bool also_those_that_start_calls = true) noexcept;
  bool nothing_left() noexcept;

  std::mutex busy_;
  std::vector<std::shared_ptr<watched_work>> all_;  // works that have not completed
  std::shared_ptr<later_look> const later_;
  bool listed_ = false;
  unwinding unwinding_;
};

}  // namespace tutti::detail

#if !defined(TUTTI_COMPILED)
#include "tutti/device/front/work_impl.hpp"
#endif
