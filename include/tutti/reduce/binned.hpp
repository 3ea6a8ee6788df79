// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// binned: a sum of floating-point numbers that does not depend on their order.
#pragma once

#include <array>
#include <bit>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <type_traits>

namespace tutti {

// A sum whose bits depend only on the numbers that were added: neither on their order, nor on how they were divided among
// ranks or partial sums. Adding is exactly associative and commutative.
//
//   bins       The binary digits of all numbers are divided at fixed places into bins of 32. A number is a whole number of
//              units in each of the two or three bins that its digits are in. The sum has a 64-bit integer for each of
//              Fold bins, from the highest in use downwards; what lies below them is dropped. Integers are added
//              exactly, and the highest bin is that of the largest number, so neither depends on the order.
//   error      n numbers: less than n 2^-(32 (Fold - 1)) times the largest magnitude, and one rounding to T. With the
//              default Fold these are n 2^-32 for float and n 2^-64 for double; n additions in T may lose n^2 2^-25 and
//              n^2 2^-54. Numbers of similar magnitude are added exactly.
//   range      at most 2^30 numbers. Infinities and NaNs give the usual result, in any order; a sum of zeros is +0.
//   cost       24 bytes for float, 32 for double; 69 and 82 instructions for a number, 23 and 33 for another sum (x86-64)
//   source     Demmel and Nguyen, "Parallel Reproducible Summation", IEEE Transactions on Computers, 2015; Ahrens, Demmel and
//              Nguyen, "Algorithms for Efficient Reproducible Floating Point Summation", ACM TOMS, 2020. Their bins are
//              floating-point numbers, which need carries after some additions; integers of 64 bits do not.
//
// It is an element of every collective, for example of a sum over values that are spread over ranks in any way:
//
//   tutti::binned<double> mine;
//   for (double const x : values) mine += x;
//   double const total = tutti::all_reduce(comm, mine).value();  // the same bits on any number of ranks
template <std::floating_point T, std::size_t Fold = std::is_same_v<T, float> ? 2 : 3>
  requires(std::is_same_v<T, float> || std::is_same_v<T, double>) && (Fold == 2 || Fold == 3)
class binned {
 public:
  constexpr binned() = default;
  constexpr explicit binned(T x) { *this += x; }

  constexpr binned& operator+=(T x) {
    bits const word = std::bit_cast<bits>(x), fraction = word & (leading - 1);
    int const field = static_cast<int>(word >> fraction_bits) & infinite;
    bool const negative = word >> (sizeof(T) * 8 - 1) != 0;
    if (field == infinite) {
      special_ |= fraction != 0 ? not_a_number : negative ? minus_infinity : plus_infinity;
      return *this;
    }
    // x is the mantissa times 2^(place - origin). Subnormal numbers have the place of the smallest normal ones, and lack the
    // leading digit.
    int const place = field == 0 ? 1 : field, lowest = place / bin_bits, shift = place % bin_bits;
    std::uint64_t const mantissa = field == 0 ? fraction : fraction | leading, low = mantissa << shift;
    std::int64_t const pieces[]{static_cast<std::int64_t>(low & 0xffffffff), static_cast<std::int64_t>(low >> bin_bits),
                                static_cast<std::int64_t>(mantissa >> bin_bits >> (bin_bits - shift))};
    int const highest = lowest + (pieces[2] != 0 ? 2 : pieces[1] != 0 ? 1 : 0);
    if (highest > top_) raise(highest);
    for (int k = 0; k < 3; ++k)
      if (auto const below = static_cast<unsigned>(top_ - lowest - k); below < Fold)
        sums_[below] += negative ? -pieces[k] : pieces[k];
    return *this;
  }
  constexpr binned& operator+=(std::span<T const> values) {
    for (T const x : values) *this += x;
    return *this;
  }
  constexpr binned& operator+=(binned const& other) {
    if (other.top_ > top_) raise(other.top_);
    auto const below = static_cast<std::size_t>(top_ - other.top_);
    for (std::size_t k = below; k < Fold; ++k) sums_[k] += other.sums_[k - below];
    special_ |= other.special_;
    return *this;
  }
  friend constexpr binned operator+(binned a, binned const& b) { return a += b; }

  // The sum, rounded once to the nearest T.
  T value() const {
    using limits = std::numeric_limits<T>;
    if (special_ == plus_infinity) return limits::infinity();
    if (special_ == minus_infinity) return -limits::infinity();
    if (special_ != 0) return limits::quiet_NaN();
    // All bins as one integer of 128 bits, in two's complement: high and low.
    std::uint64_t high = 0, low = 0;
    for (std::int64_t const sum : sums_) {
      high = high << bin_bits | low >> bin_bits;
      low <<= bin_bits;
      auto const more = static_cast<std::uint64_t>(sum);
      low += more;
      high += (sum < 0 ? ~std::uint64_t{0} : 0) + (low < more ? 1 : 0);
    }
    bool const negative = high >> 63 != 0;
    if (negative) high = ~high + (low == 0 ? 1 : 0), low = ~low + 1;
    int exponent = bin_bits * (top_ - static_cast<int>(Fold) + 1) - origin;
    if (high != 0) {
      // The first 64 digits; the last of them says whether any digit follows, which is all that rounding needs.
      int const unused = std::countl_zero(high);
      exponent += 64 - unused;
      std::uint64_t const rest = low << unused;
      low = high << unused | (unused == 0 ? 0 : low >> (64 - unused)) | (rest != 0 ? 1 : 0);
    }
    T const magnitude = std::ldexp(static_cast<T>(low), exponent);
    return negative ? -magnitude : magnitude;
  }
  explicit operator T() const { return value(); }

  friend constexpr bool operator==(binned const&, binned const&) = default;

 private:
  using bits = std::conditional_t<std::is_same_v<T, float>, std::uint32_t, std::uint64_t>;
  static constexpr int bin_bits = 32, fraction_bits = std::numeric_limits<T>::digits - 1;
  static constexpr bits leading = bits{1} << fraction_bits;
  static constexpr int infinite = 2 * std::numeric_limits<T>::max_exponent - 1;  // the exponent field of infinities
  static constexpr int origin = infinite / 2 + fraction_bits;
  static constexpr std::uint32_t plus_infinity = 1, minus_infinity = 2, not_a_number = 4;

  // Makes `top` the highest bin.
  constexpr void raise(int top) {
    auto const by = static_cast<std::size_t>(top - top_);
    for (std::size_t k = Fold; k-- > 0;) sums_[k] = k < by ? 0 : sums_[k - by];
    top_ = top;
  }

  std::array<std::int64_t, Fold> sums_{};  // from the highest bin downwards
  std::int32_t top_ = 0;                   // the highest bin
  std::uint32_t special_ = 0;              // which of the numbers that are not finite were added
};

}  // namespace tutti
