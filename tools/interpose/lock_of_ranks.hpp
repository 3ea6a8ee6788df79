// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A lock in shared memory that names its holder, for a holder may be killed.
#pragma once

#include <atomic>
#include <cstdint>
#include <sched.h>

#include "tutti/core/error.hpp"
#include "tutti/core/text.hpp"

namespace interpose {

// Holds the lock while it exists. The word is 0, or the rank of the holder, plus 1.
class lock_of_ranks {
 public:
  // Waits for the holder. Throws error: rank_lost if is_lost(holder), because what the lock protects may be half changed.
  template <class IsLost>
  lock_of_ranks(std::atomic<std::uint32_t>& holder, int rank, IsLost&& is_lost) : holder_(holder) {
    auto const self = static_cast<std::uint32_t>(rank + 1);
    for (std::uint32_t other = 0; !holder_.compare_exchange_weak(other, self, std::memory_order_acquire); other = 0) {
      // A holder may have released the lock before it ended.
      if (other != 0 && is_lost(static_cast<int>(other) - 1) && holder_.load(std::memory_order_relaxed) == other)
        report_lost(rank, static_cast<int>(other) - 1);
      ::sched_yield();
    }
  }
  lock_of_ranks(lock_of_ranks const&) = delete;
  lock_of_ranks& operator=(lock_of_ranks const&) = delete;
  ~lock_of_ranks() { holder_.store(0, std::memory_order_release); }

 private:
  [[noreturn]] static void report_lost(int rank, int holder) {
    throw tutti::error({.code = tutti::error_code::rank_lost,
                        .rank = rank,
                        .peer = holder,
                        .what = tutti::detail::join({"rank ", holder, " of this machine ended in a collective"}),
                        .way_out = "check the output of that rank"});
  }

  std::atomic<std::uint32_t>& holder_;
};

}  // namespace interpose
