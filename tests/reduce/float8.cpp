// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The 8-bit types, compared with definitions that are independent of the conversions under test.
#include "tutti/reduce/float8.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "tutti/reduce/combine.hpp"
#include "tutti/reduce/ops.hpp"

using namespace tutti;
using namespace tutti::detail;

namespace {

template <class T>
inline constexpr bool e4m3 = std::is_same_v<T, float8_e4m3>;
template <class T>
inline constexpr int greatest_code = e4m3<T> ? 0x7e : 0x7b;

template <class T>
T coded(int bits) {
  return T::from_bits(static_cast<std::uint8_t>(bits));
}

// The value of a code by the definition of the format.
template <class T>
double value_of(int code) {
  int const mantissa_bits = e4m3<T> ? 3 : 2, bias = e4m3<T> ? 7 : 15;
  int const mantissa = code & ((1 << mantissa_bits) - 1), exponent = (code & 0x7f) >> mantissa_bits;
  double const sign = code & 0x80 ? -1.0 : 1.0;
  if (e4m3<T> ? (code & 0x7f) == 0x7f : exponent == 31 && mantissa != 0) return std::nan("");
  if (!e4m3<T> && exponent == 31) return sign * HUGE_VAL;
  if (exponent == 0) return sign * std::ldexp(mantissa, 1 - bias - mantissa_bits);
  return sign * std::ldexp((1 << mantissa_bits) + mantissa, exponent - bias - mantissa_bits);
}

// The nearer of the two neighbours, the even one if both are equally near; nothing above the greatest.
template <class T>
int nearest_code(double x) {
  if (std::isnan(x)) return 0x7f;
  int const sign = std::signbit(x) ? 0x80 : 0;
  double const magnitude = std::fabs(x);
  int code = greatest_code<T>;
  while (code > 0 && value_of<T>(code) > magnitude) --code;
  if (code < greatest_code<T>) {
    double const below = magnitude - value_of<T>(code), above = value_of<T>(code + 1) - magnitude;
    if (above < below || (above == below && code % 2 == 1)) ++code;
  }
  return sign | code;
}

static_assert(float8_e4m3(1.0f).bits == 0x38 && float{float8_e4m3(448.0f)} == 448.0f && float8_e4m3(1e9f).bits == 0x7e);
static_assert(float8_e5m2(1.0f).bits == 0x3c && float{float8_e5m2(57344.0f)} == 57344.0f);
static_assert(!std::is_convertible_v<float, float8_e4m3> && std::is_convertible_v<float8_e5m2, float>);

}  // namespace

TEST_CASE_TEMPLATE("all 256 codes have the value of the format and survive the trip through float", T, float8_e4m3,
                   float8_e5m2) {
  int wrong_value = 0, wrong_trip = 0;
  for (int code = 0; code < 256; ++code) {
    double const expected = value_of<T>(code);
    float const got = coded<T>(code);
    wrong_value +=
        std::isnan(expected) ? !std::isnan(got) : got != expected || std::signbit(got) != std::signbit(expected);
    wrong_trip += T(got).bits != nearest_code<T>(expected);
    wrong_trip += std::isfinite(expected) && T(got).bits != code;
  }
  CHECK(wrong_value == 0);
  CHECK(wrong_trip == 0);
}

TEST_CASE_TEMPLATE("rounding is to nearest, ties to even, and saturates", T, float8_e4m3, float8_e5m2) {
  int wrong = 0;
  // Every 4099th float covers all exponents and signs; every midpoint and its neighbours cover the ties.
  for (std::uint64_t bits = 0; bits <= UINT32_MAX; bits += 4099) {
    float const x = __builtin_bit_cast(float, static_cast<std::uint32_t>(bits));
    wrong += T(x).bits != nearest_code<T>(x);
  }
  for (int code = 0; code <= greatest_code<T>; ++code) {
    double const low = value_of<T>(code),
                 high = code < greatest_code<T> ? value_of<T>(code + 1) : 2 * low - value_of<T>(code - 1);
    float const middle = static_cast<float>((low + high) / 2);
    for (float const x : {middle, std::nextafter(middle, 0.0f), std::nextafter(middle, HUGE_VALF)}) {
      wrong += T(x).bits != nearest_code<T>(x);
      wrong += T(-x).bits != nearest_code<T>(-x);
    }
  }
  CHECK(wrong == 0);
  CHECK(T(HUGE_VALF).bits == greatest_code<T>);
  CHECK(T(-HUGE_VALF).bits == (greatest_code<T> | 0x80));
  CHECK(T(std::numeric_limits<float>::quiet_NaN()).bits == 0x7f);
}

TEST_CASE("float8 is added up in float and rounded once") {
  // 1 + 2^-4 is a tie in e4m3 and rounds back to 1, so rounding at each step would lose every 2^-4.
  float8_e4m3 const one(1.0f), small(0.0625f);
  float8_e4m3 const* const sources[] = {&one, &small, &small};
  float8_e4m3 out(0.0f);
  float8_e4m3* const to[] = {&out};
  combine(one_thread{}, sources, 3, to, 1, 1, sum{});
  CHECK(float{out} == 1.125f);
}

TEST_CASE("numeric_limits") {
  using a = std::numeric_limits<float8_e4m3>;
  using b = std::numeric_limits<float8_e5m2>;
  CHECK(float{a::max()} == 448.0f);
  CHECK(float{a::lowest()} == -448.0f);
  CHECK(float{a::min()} == std::ldexp(1.0f, -6));
  CHECK(float{a::denorm_min()} == std::ldexp(1.0f, -9));
  CHECK(float{a::epsilon()} == 0.125f);
  CHECK(float{a::round_error()} == 0.5f);
  CHECK(std::isnan(float{a::quiet_NaN()}));
  CHECK(!a::has_infinity);
  CHECK(a::min_exponent == -5);
  CHECK(a::max_exponent == 9);
  CHECK(float{b::max()} == 57344.0f);
  CHECK(float{b::min()} == std::ldexp(1.0f, -14));
  CHECK(float{b::denorm_min()} == std::ldexp(1.0f, -16));
  CHECK(float{b::epsilon()} == 0.25f);
  CHECK(float{b::infinity()} == HUGE_VALF);
  CHECK(std::isnan(float{b::quiet_NaN()}));
}
