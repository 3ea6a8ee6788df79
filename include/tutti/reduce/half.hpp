// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The two 16-bit floating-point types, for storage: they convert to float implicitly, and arithmetic is done in float. Conversion
// from float is explicit and rounds to nearest, ties to even.
#pragma once

#include <cstdint>
#include <limits>
#include <type_traits>

#include "tutti/core/config.hpp"

namespace tutti {
namespace detail {

// Conversions are integer arithmetic without branches, which compilers vectorise for every instruction set and which gives the
// same bits on all machines, those of a NaN included. (At plain -O2, GCC 12 vectorises neither F16C conversions nor _Float16.) A
// NaN stays a NaN: it keeps the upper bits of its payload and becomes quiet.

TUTTI_HOST_DEVICE constexpr std::uint32_t bits_of(float x) { return __builtin_bit_cast(std::uint32_t, x); }
TUTTI_HOST_DEVICE constexpr float float_of(std::uint32_t bits) { return __builtin_bit_cast(float, bits); }

inline constexpr std::uint32_t float_infinity = 0x7f800000;

// Uses masks because compilers turn `?:` into a branch if one side adds floats, since an addition might trap.
TUTTI_HOST_DEVICE constexpr std::uint32_t select(bool choose, std::uint32_t a, std::uint32_t b) {
  std::uint32_t const mask = 0u - static_cast<std::uint32_t>(choose);
  return (a & mask) | (b & ~mask);
}

// A bfloat16 is the upper half of a float; the lower half of the result is unspecified. Adding 0x7fff, and one more if the upper
// half is odd, carries into it exactly when rounding to even goes up. A carry out of the mantissa gives the right exponent, up to
// infinity. The comparison is signed because SSE2 has no unsigned one.
[[gnu::always_inline]] TUTTI_HOST_DEVICE constexpr std::uint32_t round_to_bfloat16(float x) {
  std::uint32_t const bits = bits_of(x), rounded = bits + 0x7fff + ((bits >> 16) & 1);
  bool const nan = static_cast<std::int32_t>(bits & 0x7fffffff) > static_cast<std::int32_t>(float_infinity);
  return select(nan, bits | 0x400000, rounded);
}
[[gnu::always_inline]] TUTTI_HOST_DEVICE constexpr std::uint16_t bfloat16_bits(float x) {
  return static_cast<std::uint16_t>(round_to_bfloat16(x) >> 16);
}

[[gnu::always_inline]] TUTTI_HOST_DEVICE constexpr float float_of_bfloat16(std::uint16_t bits) {
  return float_of(std::uint32_t{bits} << 16);
}

// Computes three cases and selects one. A result below the least normal half, 2^-14, is a multiple of 2^-24: adding 0.5, whose
// last bit has that weight, makes the adder round. Other finite results rebias the exponent by 127 - 15 and round as above; from
// 65520 on, rounding carries into infinity. From 2^16 on the result is infinity.
[[gnu::always_inline]] TUTTI_HOST_DEVICE constexpr std::uint16_t half_bits(float x) {
  std::uint32_t const bits = bits_of(x), sign = (bits >> 16) & 0x8000, magnitude = bits & 0x7fffffff;
  std::uint32_t const normal = (magnitude - (112u << 23) + 0xfff + ((magnitude >> 13) & 1)) >> 13;
  std::uint32_t const small = bits_of(float_of(magnitude) + 0.5f) - bits_of(0.5f);
  std::uint32_t const special = select(magnitude > float_infinity, 0x7e00 | ((magnitude >> 13) & 0x3ff), 0x7c00);
  std::uint32_t const finite = select(magnitude < (113u << 23), small, normal);
  return static_cast<std::uint16_t>(sign | select(magnitude < (143u << 23), finite, special));
}

// Rebiases the exponent. A subnormal half is a multiple of 2^-24: putting it into the mantissa of 2^-14 and subtracting 2^-14 is
// exact and avoids subnormal floats.
[[gnu::always_inline]] TUTTI_HOST_DEVICE constexpr float float_of_half(std::uint16_t half) {
  std::uint32_t const sign = (half & 0x8000u) << 16, shifted = (half & 0x7fffu) << 13;
  std::uint32_t const normal = shifted + (112u << 23);
  std::uint32_t const small = bits_of(float_of(shifted + (113u << 23)) - float_of(113u << 23));
  std::uint32_t const special = shifted | float_infinity | select(shifted > (31u << 23), 0x400000, 0);
  std::uint32_t const finite = select(shifted < (1u << 23), small, normal);
  return float_of(sign | select(shifted < (31u << 23), finite, special));
}

}  // namespace detail

// IEEE 754 binary16: 11 bits of precision, at most 65504.
struct half {
  std::uint16_t bits = 0;

  half() = default;
  TUTTI_HOST_DEVICE constexpr explicit half(float x) : bits{detail::half_bits(x)} {}
  TUTTI_HOST_DEVICE constexpr operator float() const { return detail::float_of_half(bits); }
  TUTTI_HOST_DEVICE static constexpr half from_bits(std::uint16_t bits) {
    half out{};
    out.bits = bits;
    return out;
  }
};

// The upper half of an IEEE 754 binary32: 8 bits of precision, the range of float.
struct bfloat16 {
  std::uint16_t bits = 0;

  bfloat16() = default;
  TUTTI_HOST_DEVICE constexpr explicit bfloat16(float x) : bits{detail::bfloat16_bits(x)} {}
  TUTTI_HOST_DEVICE constexpr operator float() const { return detail::float_of_bfloat16(bits); }
  TUTTI_HOST_DEVICE static constexpr bfloat16 from_bits(std::uint16_t bits) {
    bfloat16 out{};
    out.bits = bits;
    return out;
  }
};

static_assert(sizeof(half) == 2 && std::is_trivially_copyable_v<half>);
static_assert(sizeof(bfloat16) == 2 && std::is_trivially_copyable_v<bfloat16>);

namespace detail {

// The limits of any binary floating-point type.
template <class T, int Digits, int MaxExponent>
struct binary_limits {
  static constexpr bool is_specialized = true, is_signed = true, is_integer = false, is_exact = false;
  static constexpr bool has_infinity = true, has_quiet_NaN = true, has_signaling_NaN = true, is_iec559 = true;
  static constexpr bool is_bounded = true, is_modulo = false, traps = false, tinyness_before = false;
  static constexpr std::float_round_style round_style = std::round_to_nearest;
  static constexpr int radix = 2, digits = Digits, max_exponent = MaxExponent, min_exponent = 3 - MaxExponent;
  static constexpr int digits10 = (Digits - 1) * 30103 / 100000, max_digits10 = Digits * 30103 / 100000 + 2;
  static constexpr int max_exponent10 = MaxExponent * 30103 / 100000,
                       min_exponent10 = -(MaxExponent - 2) * 30103 / 100000;

  // The mantissa has Digits - 1 bits; the exponent is above it.
  static constexpr T of(int bits) noexcept { return T::from_bits(static_cast<decltype(T::bits)>(bits)); }
  static constexpr int exponents = 2 * MaxExponent - 1, sign = 1 << (8 * sizeof(T) - 1);
  static constexpr T min() noexcept { return of(1 << (Digits - 1)); }
  static constexpr T max() noexcept { return of((exponents << (Digits - 1)) - 1); }
  static constexpr T lowest() noexcept { return of(sign | ((exponents << (Digits - 1)) - 1)); }
  static constexpr T epsilon() noexcept { return of((MaxExponent - Digits) << (Digits - 1)); }
  static constexpr T round_error() noexcept { return of((MaxExponent - 2) << (Digits - 1)); }
  static constexpr T infinity() noexcept { return of(exponents << (Digits - 1)); }
  static constexpr T quiet_NaN() noexcept { return of((exponents << (Digits - 1)) | (1 << (Digits - 2))); }
  static constexpr T signaling_NaN() noexcept { return of((exponents << (Digits - 1)) | 1); }
  static constexpr T denorm_min() noexcept { return of(1); }
};

}  // namespace detail
}  // namespace tutti

template <>
struct std::numeric_limits<tutti::half> : tutti::detail::binary_limits<tutti::half, 11, 16> {};
template <>
struct std::numeric_limits<tutti::bfloat16> : tutti::detail::binary_limits<tutti::bfloat16, 8, 128> {};
