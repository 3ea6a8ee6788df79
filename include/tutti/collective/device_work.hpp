// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// work that ends when a stream of a device has got so far.
#pragma once

#include <algorithm>
#include <chrono>
#include <exception>
#include <memory>
#include <source_location>
#include <thread>
#include <utility>
#include <vector>

#include "tutti/collective/device_watch.hpp"
#include "tutti/collective/work.hpp"
#include "tutti/core/wait.hpp"
#include "tutti/transport/device.hpp"

namespace tutti::detail {

template <marking_device D>
class device_work final : public pending_call {
 public:
  device_work(pending_calls& queue, D const& on, device_watch const* watch, stream_of<D> stream,
              std::source_location where)
      : pending_call{queue}, mark_{on}, watch_{watch}, where_{where} {
    mark_.record(stream);
  }

  // What a stream has reached after a fault may not have happened.
  bool look() noexcept {
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

 private:
  device_event<D> mark_;
  device_watch const* watch_;
  std::source_location where_;
};

// Streams move by themselves, so there is nothing to do but to look.
template <marking_device D>
class device_works final : public pending_calls {
 public:
  work add(std::shared_ptr<device_work<D>> const& one) {
    std::erase_if(all_, [](auto const& w) { return w->ended(); });
    all_.push_back(one);
    return work(one);
  }

  progress advance() noexcept override {
    bool moved = false;
    for (auto const& one : all_)
      if (!one->ended()) moved |= one->look();
    follower::run_due();
    return moved ? progress::moved : progress::stuck;
  }
  progress help() noexcept override { return advance(); }
  bool wait(pending_call const* one, deadline until) override {
    return wait_until_done(
        [&] {
          advance();
          bool const done = std::ranges::all_of(
              all_, [&](auto const& w) { return w->ended() || (one != nullptr && w.get() != one); });
          return done ? progress::done : progress::stuck;
        },
        patience_sharing_cores, until,
        [](auto const&) {
          std::this_thread::sleep_for(idler::rest);
          return true;
        });
  }

 private:
  std::vector<std::shared_ptr<device_work<D>>> all_;
};

}  // namespace tutti::detail
