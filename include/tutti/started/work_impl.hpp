// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Definitions of started/work.hpp.
#pragma once

#include <atomic>
#include <cstddef>
#include <exception>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "tutti/started/call.hpp"
#include "tutti/started/follower.hpp"
#include "tutti/started/work.hpp"

namespace tutti::detail {

// Ends when several calls have ended, with the exception of the first of the list that failed.
class joined_call final : public pending_call {
 public:
  // The queue, which waits for all parts, is that of one that has not ended, if there is one.
  joined_call(pending_calls& queue, std::size_t calls) : pending_call(&queue, prepared), parts_(calls), left_(calls) {
    restart();
    queue.count_follower();
  }
  bool joins() const noexcept override { return true; }
  static void follow(std::shared_ptr<joined_call> const& whole,
                     std::span<std::shared_ptr<pending_call> const> calls) noexcept {
    for (std::size_t i = 0; i < calls.size(); ++i) {
      whole->parts_[i].whole = whole.get();
      calls[i]->follow(std::shared_ptr<follower>(whole, &whole->parts_[i]));
    }
    follower::run_due();
  }

 private:
  struct part final : follower {
    void run(std::exception_ptr const& why) noexcept override {
      thrown = why;
      whole->count_part();
    }
    joined_call* whole = nullptr;
    std::exception_ptr thrown;
  };

  void count_part() noexcept {
    if (left_.fetch_sub(1) > 1) return;
    std::exception_ptr first;
    for (part const& p : parts_)
      if (!first) first = p.thrown;
    pending_calls* const calls = queue();
    end(std::move(first));
    calls->discount_follower();
  }

  std::vector<part> parts_;
  std::atomic<std::size_t> left_;
};

TUTTI_INLINE work joined(std::span<work const> all) {
  std::vector<std::shared_ptr<pending_call>> calls;
  pending_calls* queue = nullptr;
  for (work const& w : all) {
    if (!w.call_) continue;
    calls.push_back(w.call_);
    if (!w.call_->ended()) queue = w.call_->queue();
  }
  if (calls.empty()) return work();
  // If all parts have ended, the whole may still find out later.
  pending_calls& counting = queue != nullptr ? *queue : late_followers::unless_counting(calls.front()->queue());
  auto whole = std::make_shared<joined_call>(counting, calls.size());
  joined_call::follow(whole, calls);
  return work(std::move(whole));
}

}  // namespace tutti::detail
