// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Finds threads that use an object at the same time, although only one at a time may.
#pragma once

#include <atomic>
#include <cstdint>

namespace tutti::detail {

// A thread enters without an atomic operation, so two that enter within nanoseconds of each other go unnoticed. If `finds_all`, they
// enter by an atomic exchange, which waits until all stores have drained.
class sole_user {
 public:
  explicit sole_user(bool finds_all) noexcept : when_vacant_(finds_all ? to_exchange : vacant) {}

  // False if another thread is inside.
  [[gnu::always_inline]] bool enter() noexcept {
    if (state_.load(std::memory_order_relaxed) != vacant) [[unlikely]]
      return enter_if_vacant();
    state_.store(taken, std::memory_order_relaxed);
    return true;
  }
  void leave() noexcept { state_.store(when_vacant_, std::memory_order_relaxed); }

 private:
  enum states : std::uint8_t { vacant, to_exchange, taken };
  [[gnu::cold, gnu::noinline]] bool enter_if_vacant() noexcept {
    return when_vacant_ == to_exchange && state_.exchange(taken) != taken;
  }

  states const when_vacant_;
  std::atomic<states> state_ = when_vacant_;
};

}  // namespace tutti::detail
