// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Arrays are converted with the bits of converting their elements one by one, whatever the instructions.
// labels: optimised
#include "tutti/reduce/convert_array.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "support/all_cpus.hpp"

using namespace tutti;
using namespace tutti::detail;

namespace {

std::uint64_t bits_of_number(float x) { return bits_of(x); }
std::uint64_t bits_of_number(double x) { return __builtin_bit_cast(std::uint64_t, x); }
template <class T>
std::uint64_t bits_of_number(T x) {
  return x.bits;
}

// What lies behind the end must stay as it is.
template <class To, class From>
int wrong_conversions(std::vector<From> const& from, std::size_t n) {
  std::vector<To> to(n + 40, To(1.0f));
  convert_array(from.data(), to.data(), n);
  int wrong = 0;
  for (std::size_t i = 0; i < to.size(); ++i) {
    auto const one = [&] {
      if constexpr (std::is_floating_point_v<To>) return static_cast<To>(from[i]);
      else return To(static_cast<float>(from[i]));
    };
    wrong += bits_of_number(to[i]) != bits_of_number(i < n ? one() : To(1.0f));
  }
  return wrong;
}

}  // namespace

TEST_CASE_TEMPLATE("arrays become smaller floating-point numbers and back", Small, half, bfloat16, float8_e4m3,
                   float8_e5m2) {
  // Floats of every sign and exponent, with mantissas that are ties, nearly ties and others.
  std::vector<float> floats;
  for (std::uint32_t upper = 0; upper < 0x10000; ++upper)
    for (std::uint32_t const lower : {0x0000u, 0x8000u, 0x7fffu, 0x8001u, 0x3a5cu})
      floats.push_back(float_of(upper << 16 | lower));
  std::vector<double> const doubles(floats.begin(), floats.begin() + 1000);
  std::vector<Small> codes;
  for (int i = 0; i < 0x10000 + 77; ++i) codes.push_back(Small::from_bits(static_cast<decltype(Small::bits)>(i)));

  auto const check = [&] {
    CHECK(wrong_conversions<Small>(floats, floats.size()) == 0);
    CHECK(wrong_conversions<float>(codes, codes.size()) == 0);
    CHECK(wrong_conversions<Small>(doubles, doubles.size()) == 0);
    CHECK(wrong_conversions<double>(codes, 300) == 0);
    for (std::size_t n = 0; n < 100; ++n) {
      CHECK(wrong_conversions<Small>(floats, n) == 0);
      CHECK(wrong_conversions<float>(codes, n) == 0);
    }
  };
  testing::on_all_cpus(check);
}
