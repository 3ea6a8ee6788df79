// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Flags and words in device and host memory by which blocks, devices and the host synchronise. On the host they are atomic.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>

#include "tutti/core/config.hpp"

namespace tutti::detail {

// The scope of a flag: blocks of the same device, or other devices too.
enum class flag_scope { device, system };

// A reader that acquires the flag sees everything written before its release.
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

// A word read as a whole, without ordering other memory.
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

// Two words that travel as one access of 16 bytes, where each is read and written as a whole. Ordered as load_word; for
// other devices.
struct alignas(16) word_pair {
  std::uint64_t of[2];
};
TUTTI_HOST_DEVICE inline word_pair load_pair(word_pair const& from) {
#if defined(__CUDA_ARCH__)
  word_pair out;
  asm volatile("ld.relaxed.sys.global.v2.b64 {%0, %1}, [%2];"
               : "=l"(out.of[0]), "=l"(out.of[1])
               : "l"(__cvta_generic_to_global(&from))
               : "memory");
  return out;
#else
  return {{load_word<flag_scope::system>(from.of[0]), load_word<flag_scope::system>(from.of[1])}};
#endif
}
TUTTI_HOST_DEVICE inline void store_pair(word_pair& to, word_pair const& value) {
#if defined(__CUDA_ARCH__)
  asm volatile("st.relaxed.sys.global.v2.b64 [%0], {%1, %2};" ::"l"(__cvta_generic_to_global(&to)), "l"(value.of[0]),
               "l"(value.of[1])
               : "memory");
#else
  for (int k = 0; k < 2; ++k) std::atomic_ref(to.of[k]).store(value.of[k], std::memory_order_relaxed);
#endif
}

// A word of host memory that the host reads and writes meanwhile.
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

// Replaces a word that blocks of one device share, without ordering other memory; returns its previous value.
TUTTI_HOST_DEVICE inline std::uint64_t exchange_word(std::uint64_t& word, std::uint64_t value) {
#if defined(__CUDA_ARCH__)
  std::uint64_t before;
  asm volatile("atom.relaxed.gpu.global.exch.b64 %0, [%1], %2;"
               : "=l"(before)
               : "l"(__cvta_generic_to_global(&word)), "l"(value)
               : "memory");
  return before;
#else
  return std::atomic_ref(word).exchange(value, std::memory_order_relaxed);
#endif
}

// Increments a counter shared by the blocks of one device; returns its previous value. Who counts later sees everything
// that was written before earlier counts.
TUTTI_HOST_DEVICE inline std::uint32_t count_up(std::uint32_t& word) {
#if defined(__CUDA_ARCH__)
  std::uint32_t before;
  asm volatile("atom.acq_rel.gpu.global.add.u32 %0, [%1], 1;"
               : "=r"(before)
               : "l"(__cvta_generic_to_global(&word))
               : "memory");
  return before;
#else
  return std::atomic_ref(word).fetch_add(1, std::memory_order_acq_rel);
#endif
}

// Whether this is the last of so many blocks to call it; `called` is 0 before the first and after the last.
TUTTI_HOST_DEVICE inline bool is_last_of(int blocks, std::uint32_t& called) {
  if (count_up(called) + 1 != static_cast<std::uint32_t>(blocks)) return false;
  called = 0;
  return true;
}

// Aborts the kernel when it cannot continue correctly. The process cannot use the device afterwards.
[[noreturn]] TUTTI_HOST_DEVICE inline void abort_kernel() {
#if defined(__CUDA_ARCH__)
  __trap();
  __builtin_unreachable();
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
