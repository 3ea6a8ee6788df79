// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Words in memory of a device by which its blocks tell each other how far they are. On the host they are atomic words.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <sched.h>

#include "tutti/core/config.hpp"

namespace tutti {

// Who else reads and writes a flag: blocks of the same device, or other devices too.
enum class flag_scope { device, system };

// All that was written before the flag is seen by who reads it so.
template <flag_scope Scope>
TUTTI_HOST_DEVICE inline std::uint64_t load_acquire(std::uint64_t const& flag) {
#if defined(__CUDA_ARCH__)
  std::uint64_t out;
  if constexpr (Scope == flag_scope::device)
    asm volatile("ld.acquire.gpu.global.b64 %0, [%1];" : "=l"(out) : "l"(__cvta_generic_to_global(&flag)) : "memory");
  else
    asm volatile("ld.acquire.sys.global.b64 %0, [%1];" : "=l"(out) : "l"(__cvta_generic_to_global(&flag)) : "memory");
  return out;
#else
  return std::atomic_ref(const_cast<std::uint64_t&>(flag)).load(std::memory_order_acquire);
#endif
}
template <flag_scope Scope>
TUTTI_HOST_DEVICE inline void store_release(std::uint64_t& flag, std::uint64_t value) {
#if defined(__CUDA_ARCH__)
  if constexpr (Scope == flag_scope::device)
    asm volatile("st.release.gpu.global.b64 [%0], %1;" ::"l"(__cvta_generic_to_global(&flag)), "l"(value) : "memory");
  else
    asm volatile("st.release.sys.global.b64 [%0], %1;" ::"l"(__cvta_generic_to_global(&flag)), "l"(value) : "memory");
#else
  std::atomic_ref(flag).store(value, std::memory_order_release);
#endif
}

// A word that arrives whole, and says nothing of others.
template <flag_scope Scope>
TUTTI_HOST_DEVICE inline std::uint64_t load_word(std::uint64_t const& word) {
#if defined(__CUDA_ARCH__)
  std::uint64_t out;
  if constexpr (Scope == flag_scope::device)
    asm volatile("ld.relaxed.gpu.global.b64 %0, [%1];" : "=l"(out) : "l"(__cvta_generic_to_global(&word)) : "memory");
  else
    asm volatile("ld.relaxed.sys.global.b64 %0, [%1];" : "=l"(out) : "l"(__cvta_generic_to_global(&word)) : "memory");
  return out;
#else
  return std::atomic_ref(const_cast<std::uint64_t&>(word)).load(std::memory_order_relaxed);
#endif
}
template <flag_scope Scope>
TUTTI_HOST_DEVICE inline void store_word(std::uint64_t& word, std::uint64_t value) {
#if defined(__CUDA_ARCH__)
  if constexpr (Scope == flag_scope::device)
    asm volatile("st.relaxed.gpu.global.b64 [%0], %1;" ::"l"(__cvta_generic_to_global(&word)), "l"(value) : "memory");
  else
    asm volatile("st.relaxed.sys.global.b64 [%0], %1;" ::"l"(__cvta_generic_to_global(&word)), "l"(value) : "memory");
#else
  std::atomic_ref(word).store(value, std::memory_order_relaxed);
#endif
}

// Ends the kernel, and with it the use of the device, where going on would be wrong.
[[noreturn]] TUTTI_HOST_DEVICE inline void stop_the_device() {
#if defined(__CUDA_ARCH__)
  __trap();
#else
  std::abort();
#endif
}

TUTTI_HOST_DEVICE inline std::uint64_t nanoseconds_now() {
#if defined(__CUDA_ARCH__)
  std::uint64_t now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  return now;
#else
  return static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
#endif
}

// Looks for what another block does, which end where nothing was found for so many nanoseconds.
class bounded_wait {
 public:
  TUTTI_HOST_DEVICE explicit bounded_wait(std::uint64_t limit) : limit_(limit) {}

  TUTTI_HOST_DEVICE void found() { began_ = 0; }
  // A device has nobody else to run meanwhile; on the host, blocks are threads that share cores.
  TUTTI_HOST_DEVICE void found_nothing() {
    std::uint64_t const now = nanoseconds_now();
    if (began_ == 0) began_ = now;
    if (now - began_ > limit_) stop_the_device();
#if !defined(__CUDA_ARCH__)
    ::sched_yield();
#endif
  }

 private:
  std::uint64_t limit_, began_ = 0;
};

}  // namespace tutti
