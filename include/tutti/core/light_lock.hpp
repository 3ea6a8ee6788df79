// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A lock and a counter for paths on which locked instructions would be felt.
#pragma once

#include <atomic>
#include <cstddef>
#if __has_include(<sys/single_threaded.h>)
#include <sys/single_threaded.h>
#endif

#include "tutti/core/wait.hpp"

namespace tutti::detail {

// Whether the C library knows that this process has no other thread. One that is started later sees what was stored before.
inline bool has_one_thread() noexcept {
#if __has_include(<sys/single_threaded.h>)
  return __libc_single_threaded != 0;
#else
  return false;
#endif
}

inline void increase(std::atomic<std::size_t>& to, std::size_t n) noexcept {
  if (has_one_thread()) to.store(to.load(std::memory_order_relaxed) + n, std::memory_order_relaxed);
  else to.fetch_add(n, std::memory_order_relaxed);
}
// A thread that reads the result sees all that this one did before.
inline void decrease(std::atomic<std::size_t>& from, std::size_t n) noexcept {
  if (has_one_thread()) from.store(from.load(std::memory_order_relaxed) - n, std::memory_order_relaxed);
  else from.fetch_sub(n, std::memory_order_release);
}

// Stores a flag in one order with accesses to other variables, for which several threads need a locked instruction.
inline void set_in_order(std::atomic<bool>& flag, bool value) noexcept {
  if (has_one_thread()) flag.store(value, std::memory_order_relaxed);
  else flag.store(value, std::memory_order_seq_cst);
}

// In place of a std::mutex that other threads rarely hold. Its release is a plain store: a locked instruction would wait until
// earlier stores have left the core, and those to a line that a peer holds leave late.
class light_lock {
 public:
  light_lock() = default;
  light_lock(light_lock const&) = delete;
  light_lock& operator=(light_lock const&) = delete;

  [[gnu::always_inline]] void lock() noexcept {
    if (!try_lock()) [[unlikely]]
      wait();
  }
  [[gnu::always_inline]] bool try_lock() noexcept {
    if (held_.load(std::memory_order_relaxed)) return false;
    if (!has_one_thread()) return !held_.exchange(true, std::memory_order_acquire);
    held_.store(true, std::memory_order_relaxed);
    return true;
  }
  void unlock() noexcept { held_.store(false, std::memory_order_release); }

 private:
  // The holder may be copying megabytes.
  [[gnu::cold, gnu::noinline]] void wait() noexcept {
    for (idler rest; !try_lock();) rest.pause();
  }

  std::atomic<bool> held_{false};
};

}  // namespace tutti::detail
