// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Conversion of packs of 8-bit and 16-bit floating-point numbers to float and back, and detection of the CPU instructions for it.
// Every path gives the bits of the conversions in half.hpp and float8.hpp.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "tutti/core/config.hpp"
#include "tutti/reduce/float8.hpp"
#include "tutti/reduce/half.hpp"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace tutti::detail {

// The instructions that the surrounding code may use.
enum class instructions { compiled_for, avx2_and_f16c };

// Fused multiply-add changes the bits of a * b + c in a user's operation. AVX-512 includes it and AVX2 does not, so code for AVX2
// gives the same bits on all CPUs. AVX-512 would make sums of bfloat16 1.03 to 1.2 times as fast, and nothing else beyond the
// first-level cache (AMD EPYC, family 25 model 17).
#if defined(__x86_64__) && !defined(__CUDACC__)
// __builtin_cpu_supports would link a list of all CPUs, 5 KB, and does not know F16C.
[[gnu::cold]] inline bool cpu_has_avx2_and_f16c() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  constexpr unsigned needed = bit_OSXSAVE | bit_AVX | bit_F16C;
  if (__get_cpuid(1, &a, &b, &c, &d) == 0 || (c & needed) != needed) return false;
  asm volatile("xgetbv" : "=a"(a), "=d"(d) : "c"(0));
  constexpr unsigned saved_by_the_system = 0b110;  // 128-bit and 256-bit registers
  return (a & saved_by_the_system) == saved_by_the_system && __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 &&
         (b & bit_AVX2) != 0;
}
// Before it is initialised the slower code runs, with the same results. Tests set it.
inline bool use_widest = cpu_has_avx2_and_f16c();

#if defined(__AVX2__)
inline constexpr bool compiled_for_widest = true;
#else
inline constexpr bool compiled_for_widest = false;
#endif
#endif

// The conversions of a type that is not bfloat16.
template <class T, int Count>
struct codes;
template <int Count>
struct codes<half, Count> : half_codes<Count> {};
template <int Count>
struct codes<float8_e4m3, Count> : e4m3_codes<Count> {};
template <int Count>
struct codes<float8_e5m2, Count> : e5m2_codes<Count> {};

template <class T>
inline constexpr bool has_codes = std::same_as<T, half> || std::same_as<T, float8_e4m3> || std::same_as<T, float8_e5m2>;

template <class T>
inline constexpr bool is_small_float = std::same_as<T, bfloat16> || has_codes<T>;

// Whether any of T is a small float that is combined in float.
template <class A, class... T>
inline constexpr bool converts_packs = std::same_as<A, float> && (is_small_float<T> || ...);

#if !defined(__CUDACC__)
using eight_halves = short __attribute__((vector_size(16)));
using eight_floats = lanes<8>::floats;
#endif

// GCC 12 turns a loop over elements into memcpy and that into `rep movs`, which takes longer than all other work here.
template <std::size_t N>
[[gnu::always_inline]] inline void copy_floats(float const* in, float* out) {
#if defined(__CUDACC__)  // nvcc has no such vector types
  TUTTI_UNROLL
  for (std::size_t i = 0; i < N; ++i) out[i] = in[i];
#else
  constexpr std::size_t step = N < 8 ? N : 8;
  TUTTI_UNROLL
  for (std::size_t i = 0; i < N; i += step) {
    eight_floats part{};
    std::memcpy(&part, in + i, step * sizeof(float));
    std::memcpy(out + i, &part, step * sizeof(float));
  }
#endif
}

#if defined(__x86_64__) && !defined(__CUDACC__)
// The instruction vcvtph2ps. Clang 22 has no builtin function for it.
[[gnu::target("avx2,f16c"), gnu::always_inline]] inline eight_floats widen(eight_halves part) {
#if defined(__clang__)
  using eight_float16 = _Float16 __attribute__((vector_size(16)));
  return __builtin_convertvector(reinterpret_cast<eight_float16>(part), eight_floats);
#else
  return __builtin_ia32_vcvtph2ps256(part);
#endif
}
// GCC 12 does not vectorise these conversions, so they are written with intrinsics. N is a multiple of 8, or less than 8.
template <std::size_t N>
[[gnu::target("avx2,f16c")]] inline void load_halves(half const* in, float* out) {
  constexpr std::size_t step = N < 8 ? N : 8;
  TUTTI_UNROLL
  for (std::size_t i = 0; i < N; i += step) {
    eight_halves part{};
    std::memcpy(&part, in + i, step * sizeof(half));
    eight_floats const wide = widen(part);
    std::memcpy(out + i, &wide, step * sizeof(float));
  }
}
template <std::size_t N>
[[gnu::target("avx2,f16c")]] inline void store_halves(float const* in, half* out) {
  constexpr std::size_t step = N < 8 ? N : 8;
  TUTTI_UNROLL
  for (std::size_t i = 0; i < N; i += step) {
    eight_floats wide{};
    std::memcpy(&wide, in + i, step * sizeof(float));
    eight_halves const part = __builtin_ia32_vcvtps2ph256(wide, 0);  // 0: to nearest, ties to even
    std::memcpy(static_cast<void*>(out + i), &part, step * sizeof(half));
  }
}
#endif

// Words hold two or four codes each. So many of them are converted at once of a pack of N elements; 0: its elements one by one.
template <class T, std::size_t N, instructions Has>
inline constexpr int words_at_once = [] {
#if !defined(__CUDACC__)
  if constexpr (has_codes<T>) {
    constexpr std::size_t bytes = N * sizeof(T);
    if (Has == instructions::avx2_and_f16c && bytes % 32 == 0) return 8;
    if (bytes % 16 == 0) return 4;
  }
#endif
  return 0;
}();

#if !defined(__CUDACC__)
// Part k of `parts` equal parts of a pack of floats takes code k of every word.
template <std::size_t N, int Words, class T>
[[gnu::always_inline]] inline void load_words(T const* in, float* out) {
  constexpr std::size_t parts = 4 / sizeof(T), width = 8 * sizeof(T);
  for (std::size_t i = 0; i < N / parts; i += Words) {
    typename lanes<Words>::words packed;
    std::memcpy(&packed, in + i * parts, sizeof packed);
    TUTTI_UNROLL
    for (std::size_t k = 0; k < parts; ++k) {
      typename lanes<Words>::floats numbers;
      codes<T, Words>::decode((packed >> (k * width)) & ((1u << width) - 1), numbers);
      std::memcpy(out + k * (N / parts) + i, &numbers, sizeof numbers);
    }
  }
}
template <std::size_t N, int Words, class T>
[[gnu::always_inline]] inline void store_words(float const* in, T* out) {
  constexpr std::size_t parts = 4 / sizeof(T), width = 8 * sizeof(T);
  for (std::size_t i = 0; i < N / parts; i += Words) {
    typename lanes<Words>::words packed{};
    TUTTI_UNROLL
    for (std::size_t k = 0; k < parts; ++k) {
      typename lanes<Words>::floats numbers;
      std::memcpy(&numbers, in + k * (N / parts) + i, sizeof numbers);
      typename lanes<Words>::words code;
      codes<T, Words>::encode(numbers, code);
      packed |= code << (k * width);
    }
    std::memcpy(static_cast<void*>(out + i * parts), &packed, sizeof packed);
  }
}
#endif

// Loads N elements into accumulators. Small floats are permuted, which store_pack of the same N reverses: the codes in a 32-bit word
// become words by shifts and masks, so that nothing has to move between lanes of a vector register. GCC 12 vectorises the loop for
// bfloat16, but no other conversion, nor one from bytes to words.
template <std::size_t N, instructions Has, class T, class A>
[[gnu::always_inline]] inline void load_pack(T const* in, A* out) {
  if constexpr (std::same_as<T, bfloat16> && N % 2 == 0) {
    TUTTI_UNROLL
    for (std::size_t i = 0; i < N / 2; ++i) {
      std::uint32_t word;
      std::memcpy(&word, in + 2 * i, sizeof word);
      out[i] = float_of(word << 16);
      out[N / 2 + i] = float_of(word & 0xffff0000);
    }
#if defined(__x86_64__) && !defined(__CUDACC__)
  } else if constexpr (std::same_as<T, half> && Has == instructions::avx2_and_f16c) {
    load_halves<N>(in, out);
#endif
#if !defined(__CUDACC__)
  } else if constexpr (words_at_once<T, N, Has> > 0) {
    load_words<N, words_at_once<T, N, Has>>(in, out);
#endif
  } else if constexpr (std::same_as<T, A>) {
    copy_floats<N>(in, out);
  } else {
    TUTTI_UNROLL
    for (std::size_t i = 0; i < N; ++i) out[i] = static_cast<A>(in[i]);
  }
}

template <std::size_t N, instructions Has, class A, class T>
[[gnu::always_inline]] inline void store_pack(A const* in, T* out) {
  if constexpr (std::same_as<T, bfloat16> && N % 2 == 0) {
    TUTTI_UNROLL
    for (std::size_t i = 0; i < N / 2; ++i) {
      std::uint32_t const word = (round_to_bfloat16(in[i]) >> 16) | (round_to_bfloat16(in[N / 2 + i]) & 0xffff0000);
      std::memcpy(static_cast<void*>(out + 2 * i), &word, sizeof word);
    }
#if defined(__x86_64__) && !defined(__CUDACC__)
  } else if constexpr (std::same_as<T, half> && Has == instructions::avx2_and_f16c) {
    store_halves<N>(in, out);
#endif
#if !defined(__CUDACC__)
  } else if constexpr (words_at_once<T, N, Has> > 0) {
    store_words<N, words_at_once<T, N, Has>>(in, out);
#endif
  } else if constexpr (std::same_as<T, A>) {
    copy_floats<N>(in, out);
  } else {
    TUTTI_UNROLL
    for (std::size_t i = 0; i < N; ++i) out[i] = static_cast<T>(in[i]);
  }
}

}  // namespace tutti::detail
