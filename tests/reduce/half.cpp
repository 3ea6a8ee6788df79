// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The 16-bit types, compared with definitions that are independent of the conversions under test.
// labels: optimised
#include "tutti/reduce/half.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <limits>

using namespace tutti;
using namespace tutti::detail;

namespace {

// The value of a bit pattern by the definition of the format.
double value_of(int bits, int mantissa_bits, int bias) {
  int const mantissa = bits & ((1 << mantissa_bits) - 1), exponent = (bits & 0x7fff) >> mantissa_bits;
  double const sign = bits & 0x8000 ? -1.0 : 1.0;
  if (exponent == 2 * bias + 1) return mantissa != 0 ? std::nan("") : sign * HUGE_VAL;
  if (exponent == 0) return sign * std::ldexp(mantissa, 1 - bias - mantissa_bits);
  return sign * std::ldexp((1 << mantissa_bits) + mantissa, exponent - bias - mantissa_bits);
}

template <class T>
void check_all_patterns(int mantissa_bits, int bias) {
  int wrong_value = 0, wrong_trip = 0;
  for (int bits = 0; bits < 0x10000; ++bits) {
    T const x = T::from_bits(static_cast<std::uint16_t>(bits));
    double const expected = value_of(bits, mantissa_bits, bias);
    float const got = x;
    wrong_value +=
        std::isnan(expected) ? !std::isnan(got) : got != expected || std::signbit(got) != std::signbit(expected);
    int const back = T(got).bits, quiet = std::isnan(expected) ? bits | 1 << (mantissa_bits - 1) : bits;
    wrong_trip +=
        std::isnan(expected) ? (back | 1 << (mantissa_bits - 1)) != quiet || !std::isnan(float{T(got)}) : back != bits;
  }
  CHECK(wrong_value == 0);
  CHECK(wrong_trip == 0);
}

// Around every midpoint of two neighbours: values just below round down, values just above round up, and ties to even.
template <class T>
void check_rounding(int mantissa_bits) {
  int const infinity = ((1 << (15 - mantissa_bits)) - 1) << mantissa_bits;
  int wrong = 0;
  for (int low = 0; low < infinity; ++low) {
    double const a = float{T::from_bits(static_cast<std::uint16_t>(low))};
    // Above the greatest finite number, rounding works as if the exponent continued.
    double const previous = low > 0 ? float{T::from_bits(static_cast<std::uint16_t>(low - 1))} : 0.0;
    double const b =
        low + 1 < infinity ? double{float{T::from_bits(static_cast<std::uint16_t>(low + 1))}} : a + (a - previous);
    float const middle = static_cast<float>((a + b) / 2);
    int const even = low % 2 == 0 ? low : low + 1;
    for (int const s : {0, 0x8000}) {
      float const sign = s != 0 ? -1.0f : 1.0f;
      wrong += T(sign * middle).bits != (even | s);
      wrong += T(sign * std::nextafter(middle, 0.0f)).bits != (low | s);
      wrong += T(sign * std::nextafter(middle, HUGE_VALF)).bits != ((low + 1) | s);
    }
  }
  CHECK(wrong == 0);
}

static_assert(half(1.0f).bits == 0x3c00 && float{half(65504.0f)} == 65504.0f && half(65520.0f).bits == 0x7c00);
static_assert(bfloat16(1.0f).bits == 0x3f80 && bfloat16(1.00390625f).bits == 0x3f80);
static_assert(!std::is_convertible_v<float, half> && std::is_convertible_v<half, float>);
static_assert(!std::is_convertible_v<float, bfloat16> && std::is_convertible_v<bfloat16, float>);

}  // namespace

TEST_CASE("all 65536 patterns have the value of the format and survive the trip through float") {
  check_all_patterns<half>(10, 15);
  check_all_patterns<bfloat16>(7, 127);
}

TEST_CASE("rounding is to nearest, ties to even, subnormal and overflowing values included") {
  check_rounding<half>(10);
  check_rounding<bfloat16>(7);
}

TEST_CASE("a NaN stays a NaN, also where its payload is below the bits that are kept") {
  float const small_payload = __builtin_bit_cast(float, 0x7f800001u);
  CHECK(std::isnan(float{half(small_payload)}));
  CHECK(std::isnan(float{bfloat16(small_payload)}));
  CHECK(half(__builtin_bit_cast(float, 0xffc02000u)).bits == 0xfe01);
  CHECK(bfloat16(__builtin_bit_cast(float, 0xffffffffu)).bits == 0xffff);
  CHECK(half(HUGE_VALF).bits == 0x7c00);
  CHECK(half(-1e30f).bits == 0xfc00);
  CHECK(half(1e-30f).bits == 0);
  CHECK(half(-1e-30f).bits == 0x8000);
}

TEST_CASE("numeric_limits") {
  using h = std::numeric_limits<half>;
  using b = std::numeric_limits<bfloat16>;
  CHECK(float{h::max()} == 65504.0f);
  CHECK(float{h::lowest()} == -65504.0f);
  CHECK(float{h::min()} == std::ldexp(1.0f, -14));
  CHECK(float{h::denorm_min()} == std::ldexp(1.0f, -24));
  CHECK(float{h::epsilon()} == std::ldexp(1.0f, -10));
  CHECK(float{h::round_error()} == 0.5f);
  CHECK(float{h::infinity()} == HUGE_VALF);
  CHECK(std::isnan(float{h::quiet_NaN()}));
  CHECK(float{b::max()} == std::ldexp(255.0f, 120));
  CHECK(float{b::min()} == std::numeric_limits<float>::min());
  CHECK(float{b::epsilon()} == std::ldexp(1.0f, -7));
  CHECK(float{b::round_error()} == 0.5f);
  CHECK(float{b::infinity()} == HUGE_VALF);
  // The decimal constants follow from the binary ones as float's do.
  CHECK(h::digits10 == 3);
  CHECK(h::max_digits10 == 5);
  CHECK(h::max_exponent10 == 4);
  CHECK(h::min_exponent10 == -4);
  CHECK(b::digits10 == 2);
  CHECK(b::max_digits10 == 4);
  CHECK(b::max_exponent10 == std::numeric_limits<float>::max_exponent10);
  CHECK(b::min_exponent10 == std::numeric_limits<float>::min_exponent10);
  CHECK(b::min_exponent == std::numeric_limits<float>::min_exponent);
}

TEST_CASE_TEMPLATE("a value that is not given is 0, and numeric_limits has the properties of float's", T, half,
                   bfloat16) {
  using own = std::numeric_limits<T>;
  using of_float = std::numeric_limits<float>;
  CHECK(T{}.bits == 0);
  CHECK(own::is_specialized);
  CHECK(own::is_signed == of_float::is_signed);
  CHECK(own::is_integer == of_float::is_integer);
  CHECK(own::is_exact == of_float::is_exact);
  CHECK(own::has_infinity == of_float::has_infinity);
  CHECK(own::has_quiet_NaN == of_float::has_quiet_NaN);
  CHECK(own::is_iec559 == of_float::is_iec559);
  CHECK(own::is_bounded == of_float::is_bounded);
  CHECK(own::is_modulo == of_float::is_modulo);
  CHECK(own::radix == of_float::radix);
  CHECK(own::round_style == of_float::round_style);
}
