// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Words in memory of a device by which its blocks tell each other how far they are, and of the host. On the
// host they are atomic words.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>

#include "tutti/core/config.hpp"

namespace tutti::detail {

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

// A word of the host's memory, which the host reads and writes meanwhile.
TUTTI_HOST_DEVICE inline std::uint32_t load_host_word(std::uint32_t const& word) {
#if defined(__CUDA_ARCH__)
  return *static_cast<std::uint32_t const volatile*>(&word);
#else
  return __atomic_load_n(&word, __ATOMIC_RELAXED);
#endif
}
TUTTI_HOST_DEVICE inline void store_host_word(std::uint32_t& word, std::uint32_t value) {
#if defined(__CUDA_ARCH__)
  *static_cast<std::uint32_t volatile*>(&word) = value;
#else
  __atomic_store_n(&word, value, __ATOMIC_RELAXED);
#endif
}

// One more, of a word that blocks of one device count in; what it was before.
TUTTI_HOST_DEVICE inline std::uint32_t count_up(std::uint32_t& word) {
#if defined(__CUDA_ARCH__)
  return atomicAdd(&word, 1u);
#else
  return std::atomic_ref(word).fetch_add(1, std::memory_order_acq_rel);
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

}  // namespace tutti::detail
