// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Sums that do not depend on the order of their numbers, and sums that keep what rounding loses.
// labels: optimised
#include "tutti/reduce/determinism.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <random>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "tutti/reduce/arithmetic.hpp"

using namespace tutti;

namespace {

template <class T>
constexpr T largest = std::numeric_limits<T>::max();
template <class T>
constexpr T infinity_of = std::numeric_limits<T>::infinity();
template <class T>
constexpr T tiny = std::numeric_limits<T>::denorm_min();

// Numbers of either sign, whose exponents differ by up to 2 `spread`; some are zero.
template <class T>
std::vector<T> spread_numbers(std::size_t n, int spread, unsigned seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<T> mantissa(-1, 1);
  std::uniform_int_distribution<int> exponent(-spread, spread);
  std::vector<T> out(n);
  for (T& x : out) x = random() % 8 == 0 ? T{0} : std::ldexp(mantissa(random), exponent(random));
  return out;
}

// The exact sum as a list of numbers that do not overlap, smallest first (Shewchuk, "Adaptive Precision Floating-Point
// Arithmetic", 1997), in double, which is exact for float too.
template <class T>
std::vector<double> exact_sum(std::vector<T> const& numbers) {
  std::vector<double> parts;
  for (T const number : numbers) {
    double x = static_cast<double>(number);
    std::vector<double> next;
    for (double const y : parts) {
      double const sum = x + y, part = sum - x, lost = (x - (sum - part)) + (y - part);
      if (lost != 0) next.push_back(lost);
      x = sum;
    }
    next.push_back(x);
    parts = next;
  }
  return parts;
}
// |x - the exact sum|, up to the rounding of double.
template <class T>
double error_of_sum(T x, std::vector<T> numbers) {
  numbers.push_back(-x);
  double out = 0;
  for (double const part : exact_sum(numbers)) out += part;
  return std::abs(out);
}
template <class T>
double magnitudes(std::vector<T> const& numbers) {
  double out = 0;
  for (T const x : numbers) out += std::abs(static_cast<double>(x));
  return out;
}
template <class Sum, class T>
Sum added_up(std::span<T const> numbers) {
  Sum out;
  out += numbers;
  return out;
}

}  // namespace

TEST_CASE_TEMPLATE("the bits of a binned sum depend neither on the order nor on the partition", T, float, double) {
  std::mt19937 random(1);
  for (int const spread : {0, 3, 20, 60, 120})
    for (std::size_t const n : {1u, 2u, 10u, 500u}) {
      CAPTURE(spread);
      CAPTURE(n);
      auto numbers = spread_numbers<T>(n, spread, static_cast<unsigned>(n) + 7);
      auto const whole = added_up<binned<T>>(std::span<T const>(numbers));
      for (int round = 0; round < 20; ++round) {
        std::ranges::shuffle(numbers, random);
        std::vector<binned<T>> parts(1 + random() % 8);
        for (T const x : numbers) parts[random() % parts.size()] += x;
        while (parts.size() > 1) {  // in any order and grouping
          std::swap(parts[random() % parts.size()], parts.back());
          auto const last = parts.back();
          parts.pop_back();
          auto& other = parts[random() % parts.size()];
          other = random() % 2 == 0 ? other + last : last + other;
        }
        CHECK(parts[0] == whole);
        CHECK(parts[0].value() == whole.value());
      }
    }
}

TEST_CASE_TEMPLATE("a binned sum is as exact as promised", T, float, double) {
  double const bin = std::ldexp(1.0, std::is_same_v<T, float> ? -32 : -64),
               rounding = std::numeric_limits<T>::epsilon() / 2;
  for (int const spread : {0, 3, 20, 60})
    for (std::size_t const n : {1u, 2u, 3u, 100u, 3000u}) {
      auto const numbers = spread_numbers<T>(n, spread, static_cast<unsigned>(n));
      T const sum_of_all = added_up<binned<T>>(std::span<T const>(numbers)).value();
      double most = 0;
      for (T const x : numbers) most = std::max(most, std::abs(static_cast<double>(x)));
      CHECK(error_of_sum(sum_of_all, numbers) <=
            static_cast<double>(n) * bin * most + rounding * std::abs(static_cast<double>(sum_of_all)));
      if (n == 1) CHECK(sum_of_all == numbers[0]);
    }
  // Rounding to nearest, to even between two, also where digits are far below.
  T const one = 1, half_a_digit = std::numeric_limits<T>::epsilon() / 2;
  CHECK((binned<T>(one) + binned<T>(half_a_digit)).value() == one);
  CHECK((binned<T>(one) + binned<T>(half_a_digit) + binned<T>(half_a_digit / 1024)).value() == one + 2 * half_a_digit);
  CHECK((binned<T>(-one) + binned<T>(-half_a_digit) + binned<T>(half_a_digit / 1024)).value() == -one);
  CHECK((binned<T>(one + 2 * half_a_digit) + binned<T>(half_a_digit)).value() == one + 4 * half_a_digit);
}

TEST_CASE_TEMPLATE("binned sums of extreme numbers", T, float, double) {
  T const inf = infinity_of<T>, nan = std::numeric_limits<T>::quiet_NaN();
  auto const sum_of = [](std::initializer_list<T> numbers) {
    return added_up<binned<T>>(std::span<T const>(numbers.begin(), numbers.size())).value();
  };
  CHECK(sum_of({}) == 0);
  CHECK(!std::signbit(sum_of({-T{0}, -T{0}})));
  CHECK(sum_of({tiny<T>}) == tiny<T>);
  CHECK(sum_of({tiny<T>, tiny<T>, -tiny<T>}) == tiny<T>);
  CHECK(sum_of({std::numeric_limits<T>::min(), -tiny<T>}) == std::numeric_limits<T>::min() - tiny<T>);
  CHECK(sum_of({largest<T>}) == largest<T>);
  CHECK(sum_of({largest<T>, largest<T>, -largest<T>}) == largest<T>);  // no overflow on the way
  CHECK(sum_of({largest<T>, largest<T>}) == inf);
  CHECK(sum_of({largest<T>, tiny<T>, -largest<T>}) == 0);  // too far below
  CHECK(sum_of({inf, 1}) == inf);
  CHECK(sum_of({1, -inf}) == -inf);
  CHECK(std::isnan(sum_of({inf, 1, -inf})));
  CHECK(std::isnan(sum_of({nan, 1})));
  static_assert(std::is_trivially_copyable_v<binned<T>>);
  static_assert(sizeof(binned<T>) == (std::is_same_v<T, float> ? 24 : 32));
}

TEST_CASE_TEMPLATE("a compensated sum loses only what its bound allows", T, float, double) {
  double const u = std::numeric_limits<T>::epsilon() / 2;
  for (int const spread : {0, 3, 20})
    for (std::size_t const n : {1u, 2u, 3u, 100u, 3000u}) {
      auto numbers = spread_numbers<T>(n, spread, static_cast<unsigned>(n));
      for (std::size_t i = 0; i + 1 < n; i += 2) numbers.push_back(-numbers[i]);  // most of it cancels
      std::span<T const> const all(numbers);
      compensated<T> by_sums;  // of three numbers each
      for (std::size_t i = 0; i < all.size(); i += 3)
        by_sums += added_up<compensated<T>>(all.subspan(i, std::min<std::size_t>(3, all.size() - i)));
      for (T const got : {added_up<compensated<T>>(all).value(), by_sums.value()})
        CHECK(error_of_sum(got, numbers) <= u * std::abs(static_cast<double>(got)) +
                                                3 * static_cast<double>(numbers.size()) * u * u * magnitudes(numbers));
    }
  compensated<T> far;
  for (T const x : {infinity_of<T>, T{1}, T{2}}) far += x;
  CHECK(far.value() == infinity_of<T>);
  far += compensated<T>(-infinity_of<T>);
  CHECK(std::isnan(far.value()));
  CHECK((compensated<T>(largest<T>) + compensated<T>(largest<T>)).value() == infinity_of<T>);
}

TEST_CASE("policies are operations that combine at once") {
  static_assert(operation<reproducible_sum, float> && operation<reproducible_sum, double>);
  static_assert(!operation<reproducible_sum, int> && !operation<reproducible_sum, long double>);
  static_assert(operation<compensated_sum, float> && operation<rank_ordered<sum>, bfloat16>);
  static_assert(std::is_same_v<accumulator_for<reproducible_sum, float>, binned<float>>);
  static_assert(std::is_same_v<accumulator_for<rank_ordered<sum>, bfloat16>, float>);
  static_assert(detail::combines_at_once<reproducible_sum> && detail::combines_at_once<rank_ordered<sum>>);
  static_assert(!detail::combines_at_once<sum> && !is_commutative<rank_ordered<sum>>);
  static_assert(operation<sum, binned<double>> && operation<sum, compensated<float>>);
  static_assert(operation<in_any_order<sum>, bfloat16> && is_commutative<in_any_order<sum>>);
  CHECK(std::string(detail::name_of<in_any_order<sum>>()) == "tutti::in_any_order<tutti::sum>");
  CHECK(std::string(detail::name_of<rank_ordered<sum>>()) == "tutti::rank_ordered<tutti::sum>");
}
