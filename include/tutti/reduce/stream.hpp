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
  TUTTI_UNROLL
  for (std::size_t i = 0; i < Bytes; i += sizeof(__m128i)) {
    __m128i part;  // one at a time: GCC 12 would keep an array of them in memory
    std::memcpy(&part, static_cast<std::byte const*>(from) + i, sizeof part);
    auto* const place = reinterpret_cast<__m128i*>(static_cast<std::byte*>(to) + i);
    // clang's _mm_stream_si128 is static, so a program that imports this template from a module lacks it.
#if defined(__clang__)
    __builtin_nontemporal_store(part, place);
#else
    _mm_stream_si128(place, part);
#endif
  }
#else
  std::memcpy(to, from, Bytes);
#endif
}

#if defined(__x86_64__) && !defined(__CUDACC__)
// The same in parts of 32 bytes: sums of 16 MiB take 0.8 times as long as with vectors of 32 bytes that are stored in halves.
template <std::size_t Bytes>
[[gnu::target("avx2")]] inline void stream_lines_widest(void* to, void const* from) {
  static_assert(Bytes % cache_line == 0);
  using vector = long long __attribute__((vector_size(32)));
  TUTTI_UNROLL
  for (std::size_t i = 0; i < Bytes; i += sizeof(vector)) {
    vector part;
    std::memcpy(&part, static_cast<std::byte const*>(from) + i, sizeof part);
    auto* const place = reinterpret_cast<vector*>(static_cast<std::byte*>(to) + i);
#if defined(__clang__)
    __builtin_nontemporal_store(part, place);
#else
    __builtin_ia32_movntdq256(place, part);
#endif
  }
}
#endif

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
