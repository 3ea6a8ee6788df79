// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The codec of wire types: scales of blocks, their exactness, and the errors that wire.hpp promises.
#include "tutti/reduce/wire.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <limits>

using namespace tutti;
using namespace tutti::detail;

namespace {

template <class Wire>
float sent(float x, std::uint8_t scale) {
  using format = wire_format<Wire>;
  return float{format::encode(x, format::inverse(scale))} * format::factor(scale);
}

}  // namespace

TEST_CASE_TEMPLATE("a scale is the least that keeps the largest element in range", Wire, block_scaled<float8_e4m3>,
                   block_scaled<float8_e5m2, 512>) {
  using format = wire_format<Wire>;
  float const greatest = float{std::numeric_limits<typename format::element>::max()};
  for (std::uint32_t bits = 0; bits < float_infinity; bits += 0x1235) {
    float const largest = float_of(bits);
    std::uint8_t const scale = format::scale_for(bits);
    CHECK_MESSAGE(largest * format::inverse(scale) <= greatest, largest);
    CHECK_MESSAGE((scale == 1 || largest * format::inverse(scale - 1) > greatest), largest);
    CHECK_MESSAGE(format::factor(scale) * format::inverse(scale) == 1.0f, largest);
  }
  std::uint8_t const at_most = format::scale_for(bits_of(greatest));
  CHECK(format::factor(at_most) == 1.0f);
  CHECK(format::factor(format::scale_for(bits_of(std::nextafter(greatest, 1e30f)))) == 2.0f);
}

TEST_CASE_TEMPLATE("errors of scaled blocks are those that are promised", Wire, block_scaled<float8_e4m3>,
                   block_scaled<float8_e5m2>) {
  using format = wire_format<Wire>;
  bool const e4m3 = format::greatest_exponent == 8;
  double const unit = std::ldexp(1.0, e4m3 ? -4 : -3), least = std::ldexp(1.0, e4m3 ? -14 : -29),
               absolute = std::ldexp(1.0, e4m3 ? -17 : -31);
  for (float const largest : {1.0f, 448.0f, 449.0f, 3e-20f, 2.9e38f}) {
    std::uint8_t const scale = format::scale_for(bits_of(largest));
    for (float part = 1; part > 1e-12f; part *= 0.997f)
      for (float const x : {largest * part, -largest * part}) {
        double const error = std::fabs(double{sent<Wire>(x, scale)} - double{x});
        CHECK(error <= std::fmax(unit * std::fabs(double{x}), absolute * double{largest}));
        if (std::fabs(x) >= 2 * least * double{largest}) CHECK(error <= unit * std::fabs(double{x}));
      }
  }
}

TEST_CASE_TEMPLATE("what is not finite becomes NaN, and no scale depends on it", Wire, block_scaled<float8_e4m3>,
                   block_scaled<float8_e5m2>) {
  using format = wire_format<Wire>;
  for (float const x : {std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity(),
                        std::numeric_limits<float>::quiet_NaN()}) {
    CHECK(std::isnan(sent<Wire>(x, 127)));
    CHECK(format::magnitude(x) == 0);
  }
  CHECK(format::magnitude(-1.5f) == bits_of(1.5f));
  CHECK(std::signbit(sent<Wire>(-0.0f, 1)));
}

TEST_CASE("blocks take a byte more if they have a scale") {
  CHECK(wire_bytes<wire_format<bfloat16>>(3) == 768);
  CHECK(wire_bytes<wire_format<block_scaled<float8_e4m3, 256>>>(3) == 771);
}
