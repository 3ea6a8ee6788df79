// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Conversion between float and the codes of 8-bit and 16-bit floating-point numbers: of one number or, on the host, of a vector.
#pragma once

#include <cstdint>

#include "tutti/core/config.hpp"

namespace tutti::detail {

// Conversions are integer arithmetic without branches, which gives the same bits on all machines, those of a NaN included. A NaN
// stays a NaN: it keeps the upper bits of its payload and becomes quiet.

TUTTI_HOST_DEVICE constexpr std::uint32_t bits_of(float x) { return __builtin_bit_cast(std::uint32_t, x); }
TUTTI_HOST_DEVICE constexpr float float_of(std::uint32_t bits) { return __builtin_bit_cast(float, bits); }

inline constexpr std::uint32_t float_infinity = 0x7f800000;

// So many numbers that are converted together. A word holds a code or the bits of a float.
template <int Count>
struct lanes;
template <>
struct lanes<1> {
  using words = std::uint32_t;
  using ints = std::int32_t;
  using floats = float;
};
#if !defined(__CUDACC__)  // nvcc has no such types
template <>
struct lanes<4> {
  using words = std::uint32_t __attribute__((vector_size(16)));
  using ints = std::int32_t __attribute__((vector_size(16)));
  using floats = float __attribute__((vector_size(16)));
};
template <>
struct lanes<8> {
  using words = std::uint32_t __attribute__((vector_size(32)));
  using ints = std::int32_t __attribute__((vector_size(32)));
  using floats = float __attribute__((vector_size(32)));
};
#endif

// Functions on vectors return nothing: how a vector is returned depends on the instruction set, of which compilers warn.

// Keeps x where a < limit and replaces it elsewhere; a is less than 2^31. The comparison is signed because SSE2 has no unsigned one.
// For one number it uses masks because compilers turn `?:` into a branch if one side adds floats, since an addition might trap.
template <int Count>
[[gnu::always_inline]] TUTTI_HOST_DEVICE constexpr void keep_if_less(typename lanes<Count>::words& x,
                                                                     typename lanes<Count>::words const& a,
                                                                     std::uint32_t limit,
                                                                     typename lanes<Count>::words const& otherwise) {
  auto const less = __builtin_bit_cast(typename lanes<Count>::ints, a) < static_cast<std::int32_t>(limit);
  if constexpr (Count == 1) {
    std::uint32_t const mask = 0u - static_cast<std::uint32_t>(less);
    x = (x & mask) | (otherwise & ~mask);
  } else {
    x = less ? x : otherwise;
  }
}

// A bfloat16 is the upper half of a float; the lower half of the result is unspecified. Adding 0x7fff, and one more if the upper
// half is odd, carries into it exactly when rounding to even goes up. A carry out of the mantissa gives the right exponent, up to
// infinity.
[[gnu::always_inline]] TUTTI_HOST_DEVICE constexpr std::uint32_t round_to_bfloat16(float x) {
  std::uint32_t const bits = bits_of(x);
  std::uint32_t rounded = bits + 0x7fff + ((bits >> 16) & 1);
  keep_if_less<1>(rounded, bits & 0x7fffffff, float_infinity + 1, bits | 0x400000);
  return rounded;
}

// The conversions of a type, of which `decode` is exact and `encode` rounds to nearest, ties to even.
template <int Count>
struct half_codes {
  using words = typename lanes<Count>::words;
  using floats = typename lanes<Count>::floats;

  // Rebiases the exponent. A subnormal half is a multiple of 2^-24: putting it into the mantissa of 2^-14 and subtracting 2^-14 is
  // exact and avoids subnormal floats.
  [[gnu::always_inline]] TUTTI_HOST_DEVICE static constexpr void decode(words const& half, floats& x) {
    words const shifted = (half & 0x7fffu) << 13;
    floats const small = __builtin_bit_cast(floats, shifted + (113u << 23)) - float_of(113u << 23);
    words bits = __builtin_bit_cast(words, small), special = shifted | float_infinity;
    keep_if_less<Count>(bits, shifted, 1u << 23, shifted + (112u << 23));
    keep_if_less<Count>(special, shifted, (31u << 23) + 1, special | 0x400000);
    keep_if_less<Count>(bits, shifted, 31u << 23, special);
    x = __builtin_bit_cast(floats, bits | ((half & 0x8000u) << 16));
  }

  // Computes three cases and selects one. A result below the least normal half, 2^-14, is a multiple of 2^-24: adding 0.5, whose
  // last bit has that weight, makes the adder round. Other finite results rebias the exponent by 127 - 15 and round as above; from
  // 65520 on, rounding carries into infinity. From 2^16 on the result is infinity.
  [[gnu::always_inline]] TUTTI_HOST_DEVICE static constexpr void encode(floats const& x, words& half) {
    words const bits = __builtin_bit_cast(words, x), magnitude = bits & 0x7fffffff;
    words const normal = (magnitude - (112u << 23) + 0xfff + ((magnitude >> 13) & 1)) >> 13;
    floats const shifted = __builtin_bit_cast(floats, magnitude) + 0.5f;
    words code = __builtin_bit_cast(words, shifted) - bits_of(0.5f), special = words{} + 0x7c00;
    keep_if_less<Count>(code, magnitude, 113u << 23, normal);
    keep_if_less<Count>(special, magnitude, float_infinity + 1, 0x7e00 | ((magnitude >> 13) & 0x3ff));
    keep_if_less<Count>(code, magnitude, 143u << 23, special);
    half = code | ((bits >> 16) & 0x8000);
  }
};

// The value of code s eeee mmm is that of a float with exponent rebiased; a subnormal is a whole number of the least one.
template <int MantissaBits, int Bias>
struct float8_format {
  static constexpr std::uint32_t mantissa_shift = 23 - MantissaBits, rebias = std::uint32_t{127 - Bias} << 23;
  static constexpr std::uint32_t min_normal = rebias + (1u << 23);
  // Its last bit has the weight of the least subnormal, so adding it makes the adder round.
  static constexpr float rounder = float_of(std::uint32_t{127 + 24 - Bias - MantissaBits} << 23);
};

inline constexpr std::uint8_t float8_nan = 0x7f;

// Like half_codes::encode. `greatest` is the code of the greatest finite number. Rounding is monotone, so a value beyond it has a
// greater code.
template <int Count, class Format>
[[gnu::always_inline]] TUTTI_HOST_DEVICE constexpr void encode_float8(typename lanes<Count>::floats const& x,
                                                                      std::uint32_t greatest,
                                                                      typename lanes<Count>::words& code) {
  using words = typename lanes<Count>::words;
  using floats = typename lanes<Count>::floats;
  constexpr std::uint32_t shift = Format::mantissa_shift, half_unit = (1u << (shift - 1)) - 1;
  constexpr float rounder = Format::rounder;
  words const bits = __builtin_bit_cast(words, x), magnitude = bits & 0x7fffffff;
  words const normal = (magnitude - Format::rebias + half_unit + ((magnitude >> shift) & 1)) >> shift;
  floats const shifted = __builtin_bit_cast(floats, magnitude) + rounder;
  words any = __builtin_bit_cast(words, shifted) - bits_of(rounder);
  keep_if_less<Count>(any, magnitude, Format::min_normal, normal);
  keep_if_less<Count>(any, any, greatest, words{} + greatest);
  any |= (bits >> 24) & 0x80;
  keep_if_less<Count>(any, magnitude, float_infinity + 1, words{} + float8_nan);
  code = any;
}

template <int Count>
struct e4m3_codes {
  using format = float8_format<3, 7>;
  using words = typename lanes<Count>::words;
  using floats = typename lanes<Count>::floats;

  [[gnu::always_inline]] TUTTI_HOST_DEVICE static constexpr void decode(words const& code, floats& x) {
    words const magnitude = code & 0x7fu, shifted = magnitude << format::mantissa_shift;
    floats const small = __builtin_bit_cast(floats, shifted + format::min_normal) - float_of(format::min_normal);
    words bits = __builtin_bit_cast(words, small);
    keep_if_less<Count>(bits, shifted, 1u << 23, shifted + format::rebias);
    keep_if_less<Count>(bits, magnitude, float8_nan, words{} + (float_infinity | 0x400000));
    x = __builtin_bit_cast(floats, bits | ((code & 0x80u) << 24));
  }
  [[gnu::always_inline]] TUTTI_HOST_DEVICE static constexpr void encode(floats const& x, words& code) {
    encode_float8<Count, format>(x, 0x7e, code);
  }
};

// The upper half of a binary16.
template <int Count>
struct e5m2_codes {
  using words = typename lanes<Count>::words;
  using floats = typename lanes<Count>::floats;

  [[gnu::always_inline]] TUTTI_HOST_DEVICE static constexpr void decode(words const& code, floats& x) {
    half_codes<Count>::decode(code << 8, x);
  }
  [[gnu::always_inline]] TUTTI_HOST_DEVICE static constexpr void encode(floats const& x, words& code) {
    encode_float8<Count, float8_format<2, 15>>(x, 0x7b, code);
  }
};

// The conversions of one number.
template <template <int> class Codes>
TUTTI_HOST_DEVICE constexpr float decoded(std::uint32_t code) {
  float x{};
  Codes<1>::decode(code, x);
  return x;
}
template <template <int> class Codes>
TUTTI_HOST_DEVICE constexpr std::uint32_t encoded(float x) {
  std::uint32_t code{};
  Codes<1>::encode(x, code);
  return code;
}

}  // namespace tutti::detail
