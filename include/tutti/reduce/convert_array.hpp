// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Conversion of arrays between numeric types on the host: fast between float and the smaller floating-point types.
#pragma once

#include <bit>
#include <concepts>
#include <cstddef>
#include <cstring>
#include <type_traits>

#include "tutti/core/config.hpp"
#include "tutti/reduce/pack.hpp"

namespace tutti::detail {

#if !defined(__CUDACC__)
// Four rows of four numbers become four columns. A vector of eight holds two such rows, of two matrices.
template <int Count>
[[gnu::always_inline]] inline void transpose(typename lanes<Count>::floats (&v)[4]) {
  typename lanes<Count>::floats const a = v[0], b = v[1], c = v[2], d = v[3];
  if constexpr (Count == 4) {
    auto const ab = __builtin_shufflevector(a, b, 0, 4, 1, 5), cd = __builtin_shufflevector(c, d, 0, 4, 1, 5);
    auto const ab2 = __builtin_shufflevector(a, b, 2, 6, 3, 7), cd2 = __builtin_shufflevector(c, d, 2, 6, 3, 7);
    v[0] = __builtin_shufflevector(ab, cd, 0, 1, 4, 5);
    v[1] = __builtin_shufflevector(ab, cd, 2, 3, 6, 7);
    v[2] = __builtin_shufflevector(ab2, cd2, 0, 1, 4, 5);
    v[3] = __builtin_shufflevector(ab2, cd2, 2, 3, 6, 7);
  } else {
    auto const ab = __builtin_shufflevector(a, b, 0, 8, 1, 9, 4, 12, 5, 13),
               cd = __builtin_shufflevector(c, d, 0, 8, 1, 9, 4, 12, 5, 13);
    auto const ab2 = __builtin_shufflevector(a, b, 2, 10, 3, 11, 6, 14, 7, 15),
               cd2 = __builtin_shufflevector(c, d, 2, 10, 3, 11, 6, 14, 7, 15);
    v[0] = __builtin_shufflevector(ab, cd, 0, 1, 8, 9, 4, 5, 12, 13);
    v[1] = __builtin_shufflevector(ab, cd, 2, 3, 10, 11, 6, 7, 14, 15);
    v[2] = __builtin_shufflevector(ab2, cd2, 0, 1, 8, 9, 4, 5, 12, 13);
    v[3] = __builtin_shufflevector(ab2, cd2, 2, 3, 10, 11, 6, 7, 14, 15);
  }
}

// 4 * Count numbers. Word i of `packed` holds codes 4 i to 4 i + 3, so code k of all words is column k of the transposed numbers. Of
// eight words, transposing yields those with even numbers first.
template <int Count, class T>
[[gnu::always_inline]] inline void convert_block(float const* from, T* to) {
  typename lanes<Count>::floats v[4];
  typename lanes<Count>::words packed{}, code;
  TUTTI_UNROLL
  for (int k = 0; k < 4; ++k) std::memcpy(&v[k], from + k * Count, sizeof v[k]);  // one by one, into registers
  transpose<Count>(v);
  TUTTI_UNROLL
  for (int k = 0; k < 4; ++k) {
    codes<T, Count>::encode(v[k], code);
    packed |= code << (8 * k);
  }
  if constexpr (Count == 8) packed = __builtin_shufflevector(packed, packed, 0, 4, 1, 5, 2, 6, 3, 7);
  std::memcpy(static_cast<void*>(to), &packed, sizeof packed);
}
template <int Count, class T>
[[gnu::always_inline]] inline void convert_block(T const* from, float* to) {
  typename lanes<Count>::words packed;
  typename lanes<Count>::floats v[4];
  std::memcpy(&packed, from, sizeof packed);
  if constexpr (Count == 8) packed = __builtin_shufflevector(packed, packed, 0, 2, 4, 6, 1, 3, 5, 7);
  TUTTI_UNROLL
  for (int k = 0; k < 4; ++k) codes<T, Count>::decode((packed >> (8 * k)) & 0xff, v[k]);
  transpose<Count>(v);
  TUTTI_UNROLL
  for (int k = 0; k < 4; ++k) std::memcpy(to + k * Count, &v[k], sizeof v[k]);
}
#endif

// Numbers that are converted together.
inline constexpr std::size_t converted_pack = 32;

// Of From and To, one is float and the other is Small.
template <instructions Has, class Small, class To, class From>
[[gnu::always_inline]] inline void convert_with(From const* from, To* to, std::size_t n) {
  std::size_t i = 0;
  for (; i + converted_pack <= n; i += converted_pack) {
#if !defined(__CUDACC__)
    constexpr bool wide = Has == instructions::avx2_and_f16c;
    if constexpr (sizeof(Small) == 1 && std::endian::native == std::endian::little) {
      constexpr int count = wide ? 8 : 4;
      for (std::size_t k = 0; k < converted_pack; k += 4 * count) convert_block<count>(from + i + k, to + i + k);
      continue;
    }
#if defined(__x86_64__)
    if constexpr (std::same_as<To, half> && wide) {
      store_halves<converted_pack>(from + i, to + i);
      continue;
    }
    if constexpr (std::same_as<From, half> && wide) {
      load_halves<converted_pack>(from + i, to + i);
      continue;
    }
#endif
#endif
    for (std::size_t k = 0; k < converted_pack; ++k) to[i + k] = To(from[i + k]);
  }
  for (; i < n; ++i) to[i] = To(from[i]);
}

#if defined(__x86_64__) && !defined(__CUDACC__)
template <class Small, class To, class From>
[[gnu::noinline, gnu::target("avx2,f16c")]] void convert_widest(From const* from, To* to, std::size_t n) {
  convert_with<instructions::avx2_and_f16c, Small>(from, to, n);
}
#endif

// n numbers, with the bits of converting them one by one.
template <class To, class From>
void convert_array(From const* from, To* to, std::size_t n) {
  constexpr bool narrows = std::same_as<From, float> && is_small_float<To>;
  if constexpr (narrows || (std::same_as<To, float> && is_small_float<From>)) {
    using small = std::conditional_t<narrows, To, From>;
#if defined(__x86_64__) && !defined(__CUDACC__)
    if (use_widest) return convert_widest<small>(from, to, n);
#endif
    convert_with<instructions::compiled_for, small>(from, to, n);
  } else if constexpr (is_small_float<To>) {
    for (std::size_t i = 0; i < n; ++i) to[i] = To(static_cast<float>(from[i]));
  } else {
    for (std::size_t i = 0; i < n; ++i) to[i] = static_cast<To>(from[i]);
  }
}

}  // namespace tutti::detail
