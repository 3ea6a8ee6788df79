// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The two 8-bit floating-point types of the Open Compute Project (OFP8), for storage: they convert to float implicitly, and
// arithmetic is done in float. Conversion from float is explicit, rounds to nearest, ties to even, and saturates: larger values,
// infinity included, become the greatest finite number. The bits are those of CUDA's types.
#pragma once

#include <cstdint>
#include <limits>
#include <type_traits>

#include "tutti/core/config.hpp"
#include "tutti/reduce/half.hpp"

namespace tutti {
namespace detail {

// The value of code s eeee mmm is that of a float with exponent rebiased; a subnormal is a whole number of the least one.
template <int MantissaBits, int Bias>
struct float8_format {
  static constexpr std::uint32_t mantissa_shift = 23 - MantissaBits, rebias = std::uint32_t{127 - Bias} << 23;
  static constexpr std::uint32_t min_normal = rebias + (1u << 23);
  // Its last bit has the weight of the least subnormal, so adding it makes the adder round.
  static constexpr float rounder = float_of(std::uint32_t{127 + 24 - Bias - MantissaBits} << 23);
};

inline constexpr std::uint8_t float8_nan = 0x7f;

// Like half_bits. `greatest` is the code of the greatest finite number. Rounding is monotone, so a value beyond it has a greater
// code.
template <int MantissaBits, int Bias>
[[gnu::always_inline]] TUTTI_HOST_DEVICE constexpr std::uint8_t float8_bits(float x, std::uint32_t greatest) {
  using format = float8_format<MantissaBits, Bias>;
  constexpr float rounder = format::rounder;
  constexpr std::uint32_t shift = format::mantissa_shift, half_unit = (1u << (shift - 1)) - 1;
  std::uint32_t const bits = bits_of(x), sign = (bits >> 24) & 0x80, magnitude = bits & 0x7fffffff;
  std::uint32_t const normal = (magnitude - format::rebias + half_unit + ((magnitude >> shift) & 1)) >> shift;
  std::uint32_t const small = bits_of(float_of(magnitude) + rounder) - bits_of(rounder);
  std::uint32_t const any = select(magnitude < format::min_normal, small, normal);
  std::uint32_t const finite = sign | select(any < greatest, any, greatest);
  return static_cast<std::uint8_t>(select(magnitude > float_infinity, float8_nan, finite));
}

}  // namespace detail

// 4 bits of precision, at most 448. It has no infinity, and one NaN of either sign.
struct float8_e4m3 {
  std::uint8_t bits = 0;

  float8_e4m3() = default;
  TUTTI_HOST_DEVICE constexpr explicit float8_e4m3(float x) : bits{detail::float8_bits<3, 7>(x, 0x7e)} {}
  TUTTI_HOST_DEVICE constexpr operator float() const {
    using format = detail::float8_format<3, 7>;
    std::uint32_t const sign = (bits & 0x80u) << 24, shifted = (bits & 0x7fu) << format::mantissa_shift;
    std::uint32_t const normal = shifted + format::rebias;
    std::uint32_t const small =
        detail::bits_of(detail::float_of(shifted + format::min_normal) - detail::float_of(format::min_normal));
    std::uint32_t const finite = detail::select(shifted < (1u << 23), small, normal);
    std::uint32_t const quiet = detail::float_infinity | 0x400000;
    return detail::float_of(sign | detail::select((bits & 0x7f) == detail::float8_nan, quiet, finite));
  }
  TUTTI_HOST_DEVICE static constexpr float8_e4m3 from_bits(std::uint8_t bits) {
    float8_e4m3 out{};
    out.bits = bits;
    return out;
  }
};

// 3 bits of precision, at most 57344: the upper half of a binary16, infinity and NaN included.
struct float8_e5m2 {
  std::uint8_t bits = 0;

  float8_e5m2() = default;
  TUTTI_HOST_DEVICE constexpr explicit float8_e5m2(float x) : bits{detail::float8_bits<2, 15>(x, 0x7b)} {}
  TUTTI_HOST_DEVICE constexpr operator float() const {
    return detail::float_of_half(static_cast<std::uint16_t>(bits << 8));
  }
  TUTTI_HOST_DEVICE static constexpr float8_e5m2 from_bits(std::uint8_t bits) {
    float8_e5m2 out{};
    out.bits = bits;
    return out;
  }
};

static_assert(sizeof(float8_e4m3) == 1 && std::is_trivially_copyable_v<float8_e4m3>);
static_assert(sizeof(float8_e5m2) == 1 && std::is_trivially_copyable_v<float8_e5m2>);

}  // namespace tutti

// Conversions never produce infinity or a signaling NaN, but e5m2 has codes for them.
template <>
struct std::numeric_limits<tutti::float8_e5m2> : tutti::detail::binary_limits<tutti::float8_e5m2, 3, 16> {};

template <>
struct std::numeric_limits<tutti::float8_e4m3> : tutti::detail::binary_limits<tutti::float8_e4m3, 4, 8> {
  static constexpr bool has_infinity = false, has_signaling_NaN = false, is_iec559 = false;
  static constexpr int max_exponent = 9;
  static constexpr tutti::float8_e4m3 max() noexcept { return of(0x7e); }
  static constexpr tutti::float8_e4m3 lowest() noexcept { return of(0xfe); }
  static constexpr tutti::float8_e4m3 infinity() noexcept { return of(0); }
  static constexpr tutti::float8_e4m3 quiet_NaN() noexcept { return of(0x7f); }
  static constexpr tutti::float8_e4m3 signaling_NaN() noexcept { return of(0); }
};
