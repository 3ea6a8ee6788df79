// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The two 16-bit floating-point types, for storage: they convert to float implicitly, and arithmetic is done in float. Conversion
// from float is explicit and rounds to nearest, ties to even.
#pragma once

#include <cstdint>
#include <limits>
#include <type_traits>

#include "tutti/core/config.hpp"
#include "tutti/reduce/codes.hpp"

namespace tutti {

// IEEE 754 binary16: 11 bits of precision, at most 65504.
struct half {
  std::uint16_t bits = 0;

  half() = default;
  TUTTI_HOST_DEVICE constexpr explicit half(float x)
      : bits{static_cast<std::uint16_t>(detail::encoded<detail::half_codes>(x))} {}
  TUTTI_HOST_DEVICE constexpr operator float() const { return detail::decoded<detail::half_codes>(bits); }
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
  TUTTI_HOST_DEVICE constexpr explicit bfloat16(float x)
      : bits{static_cast<std::uint16_t>(detail::round_to_bfloat16(x) >> 16)} {}
  TUTTI_HOST_DEVICE constexpr operator float() const { return detail::float_of(std::uint32_t{bits} << 16); }
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
