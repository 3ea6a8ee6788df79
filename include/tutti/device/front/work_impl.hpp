// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Definitions of device/front/work.hpp.
#pragma once

#include <algorithm>
#include <atomic>
#include <utility>

#include "tutti/core/config.hpp"
#include "tutti/core/error.hpp"
#include "tutti/device/front/work.hpp"
#include "tutti/started/follower.hpp"

namespace tutti::detail {

TUTTI_INLINE void refuse_captured(std::source_location where) {
  throw error({.code = error_code::bad_argument,
               .what = "work was asked for on a stream that is being captured into a graph, where nothing runs",
               .way_out = "ask for it after the launch of the graph, on the stream of the launch",
               .where = where});
}

TUTTI_INLINE std::exception_ptr destroyed_before_done(std::source_location where) noexcept {
  return std::make_exception_ptr(error({.code = error_code::rank_left,
                                        .what = "the ranks of a stream were destroyed before its work was done",
                                        .way_out = "wait for the work first",
                                        .where = where}));
}

// Looks at all works outside of the lock of the list of queues.
class device_works::later_look final : public follower {
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

TUTTI_INLINE device_works::device_works() : later_{later_look::of(*this)} {}

TUTTI_INLINE device_works::~device_works() {
  later_->detach();
  if (listed_) progress_list::of_process().remove(*this);
}

TUTTI_INLINE work device_works::add(std::shared_ptr<watched_work> const& one) {
  std::lock_guard const lock(busy_);
  if (!std::exchange(listed_, true)) progress_list::of_process().add(*this);
  progress_list::count_started();
  all_.push_back(one);
  return work(one);
}

TUTTI_INLINE progress device_works::advance() noexcept {
  progress reached{};
  {
    std::lock_guard const lock(busy_);
    reached = move();
  }
  follower::run_due();
  return reached;
}

TUTTI_INLINE progress device_works::help() noexcept {
  std::unique_lock const lock(busy_, std::try_to_lock);
  if (!lock) return progress::stuck;
  if (std::ranges::any_of(all_, [](auto const& one) { return one->starts_calls(); })) later_->make_due();
  return move(false);
}

TUTTI_INLINE bool device_works::wait(pending_call const* one, deadline until) {
  progress_list::waiter const here;
  return wait_until_done(
      [&] {
        advance();
        if (one != nullptr ? one->ended() : nothing_left()) return progress::done;
        return progress_list::help();  // a work may wait for messages
      },
      patience_sharing_cores, until, sleep_for(idler::rest));
}

TUTTI_INLINE void device_works::close(std::chrono::nanoseconds most) {
  if (!unwinding_.begun() && wait(nullptr, deadline::after(most))) return;
  {
    std::lock_guard const lock(busy_);
    for (auto const& one : all_) one->give_up();
    static_cast<void>(move());
  }
  follower::run_due();
}

TUTTI_INLINE progress device_works::move(bool also_those_that_start_calls) noexcept {
  auto const now = progress_list::moving();
  auto const later = follower::postponing();
  auto const ended = std::erase_if(
      all_, [&](auto const& one) { return (also_those_that_start_calls || !one->starts_calls()) && one->look(); });
  progress_list::count_ended(ended);
  return ended > 0 ? progress::moved : progress::stuck;
}

TUTTI_INLINE bool device_works::nothing_left() noexcept {
  std::lock_guard const lock(busy_);
  return all_.empty() && count() == 0;
}

}  // namespace tutti::detail
