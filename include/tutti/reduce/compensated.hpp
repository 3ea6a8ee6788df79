// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// compensated: a sum of floating-point numbers that keeps what rounding has lost.
#pragma once

#include <concepts>
#include <span>

#include "tutti/core/config.hpp"

namespace tutti {

// A sum as two numbers of type T: the rounded sum, and what its rounding lost (double-double, if T is double). Every addition is
// rounded to twice the digits of T, so a sum of n numbers is off by at most one rounding to T and about 3 n u^2 times the sum
// of their magnitudes, where u is 2^-53 for double and 2^-24 for float. Adding is associative up to that error only; where
// bits must not depend on the order, see binned.
//
// Cost      twice the bytes; 10 additions for a number, 20 for another sum
// Source    Knuth, "The Art of Computer Programming", volume 2, 4.2.2 (two_sum); Joldes, Muller and Popescu, "Tight and
//           rigorous error bounds for basic building blocks of double-word arithmetic", ACM TOMS, 2017 (algorithms 4 and 6)
//
// The compiler must not reassociate (-ffast-math).
//
//   tutti::compensated<double> mine;
//   for (double const x : values) mine += x;
//   double const total = tutti::all_reduce(comm, mine).value();
template <std::floating_point T>
class compensated {
 public:
  constexpr compensated() = default;
  TUTTI_HOST_DEVICE constexpr explicit compensated(T x) : sum_(x) {}

  TUTTI_HOST_DEVICE constexpr compensated& operator+=(T x) {
    compensated const s = two_sum(sum_, x);
    return *this = fast_two_sum(s.sum_, s.lost_ + lost_);
  }
  constexpr compensated& operator+=(std::span<T const> values) {
    for (T const x : values) *this += x;
    return *this;
  }
  TUTTI_HOST_DEVICE constexpr compensated& operator+=(compensated const& other) {
    compensated const s = two_sum(sum_, other.sum_), t = two_sum(lost_, other.lost_);
    compensated const v = fast_two_sum(s.sum_, s.lost_ + t.sum_);
    return *this = fast_two_sum(v.sum_, t.lost_ + v.lost_);
  }
  friend TUTTI_HOST_DEVICE constexpr compensated operator+(compensated a, compensated const& b) { return a += b; }

  // The sum, rounded once to the nearest T.
  TUTTI_HOST_DEVICE constexpr T value() const { return sum_; }
  TUTTI_HOST_DEVICE constexpr explicit operator T() const { return value(); }

  friend constexpr bool operator==(compensated const&, compensated const&) = default;

 private:
  TUTTI_HOST_DEVICE constexpr compensated(T sum, T lost) : sum_(sum), lost_(lost) {}

  // a + b, and its rounding error, exactly. An infinite or NaN sum has lost nothing.
  static TUTTI_HOST_DEVICE constexpr compensated two_sum(T a, T b) {
    T const sum = a + b, part = sum - a, lost = (a - (sum - part)) + (b - part);
    return {sum, finite(sum) ? lost : T{}};
  }
  // The same if a is zero or not smaller than b.
  static TUTTI_HOST_DEVICE constexpr compensated fast_two_sum(T a, T b) {
    T const sum = a + b;
    return {sum, finite(sum) ? b - (sum - a) : T{}};
  }
  static TUTTI_HOST_DEVICE constexpr bool finite(T x) { return x - x == 0; }

  T sum_{}, lost_{};
};

}  // namespace tutti
