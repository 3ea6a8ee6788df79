// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The two 8-bit floating-point types of the Open Compute Project (OFP8), for storage: they convert to float implicitly, and
// arithmetic is done in float. Conversion from float is explicit, rounds to nearest, ties to even, and saturates: larger values,
// infinity included, become the greatest finite number. The bits are those of CUDA's types.
#pragma once

#include <cstdint>
#include <limits>
#include <type_traits>

#include "tutti/core/config.hpp"
#include "tutti/reduce/codes.hpp"
#include "tutti/reduce/half.hpp"

namespace tutti {
// 4 bits of precision, at most 448. It has no infinity, and one NaN of either sign.
struct float8_e4m3 {
  std::uint8_t bits = 0;

  float8_e4m3() = default;
  TUTTI_HOST_DEVICE constexpr explicit float8_e4m3(float x)
      : bits{static_cast<std::uint8_t>(detail::encoded<detail::e4m3_codes>(x))} {}
  TUTTI_HOST_DEVICE constexpr operator float() const { return detail::decoded<detail::e4m3_codes>(bits); }
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
  TUTTI_HOST_DEVICE constexpr explicit float8_e5m2(float x)
      : bits{static_cast<std::uint8_t>(detail::encoded<detail::e5m2_codes>(x))} {}
  TUTTI_HOST_DEVICE constexpr operator float() const { return detail::decoded<detail::e5m2_codes>(bits); }
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
