// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copies that bypass the caches, for data that will not be read soon: a line is not fetched before it is overwritten, and the
// contents of the caches survive.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "tutti/core/cache_line.hpp"
#include "tutti/core/config.hpp"

#if defined(__SSE2__) && !defined(__CUDA_ARCH__)
#include <emmintrin.h>
#endif

namespace tutti::detail {

inline std::size_t bytes_to_line(void const* address) {
  return (0 - reinterpret_cast<std::uintptr_t>(address)) % cache_line;
}

// Copies whole lines to the start of a line; a plain copy if the machine has no such stores. The stores are unordered: call
// stream_fence before another thread may read them.
template <std::size_t Bytes>
[[gnu::always_inline]] inline void stream_lines(void* to, void const* from) {
  static_assert(Bytes % cache_line == 0);
#if defined(__SSE2__) && !defined(__CUDA_ARCH__)
  __m128i parts[Bytes / sizeof(__m128i)];
  std::memcpy(parts, from, Bytes);
  TUTTI_UNROLL
  for (std::size_t i = 0; i < Bytes / sizeof(__m128i); ++i) {
    // clang's _mm_stream_si128 is static, so a program that imports this template from a module lacks it.
#if defined(__clang__)
    __builtin_nontemporal_store(parts[i], static_cast<__m128i*>(to) + i);
#else
    _mm_stream_si128(static_cast<__m128i*>(to) + i, parts[i]);
#endif
  }
#else
  std::memcpy(to, from, Bytes);
#endif
}

inline void stream_copy(void* to, void const* from, std::size_t bytes) {
  auto* const out = static_cast<std::byte*>(to);
  auto const* const in = static_cast<std::byte const*>(from);
  std::size_t const before = bytes_to_line(to);
  std::size_t done = before < bytes ? before : bytes;
  std::memcpy(out, in, done);
  for (; done + cache_line <= bytes; done += cache_line) stream_lines<cache_line>(out + done, in + done);
  std::memcpy(out + done, in + done, bytes - done);
}

inline void stream_fence() {
#if defined(__SSE2__) && !defined(__CUDA_ARCH__)
  _mm_sfence();
#endif
}

}  // namespace tutti::detail
