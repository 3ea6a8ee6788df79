// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Operations that add or multiply: sum, product, mean, premultiplied_sum, log_sum_exp.
#pragma once

#include <cmath>
#include <concepts>
#include <cstdint>
#include <string_view>
#include <tuple>
#include <type_traits>

#include "tutti/reduce/identity.hpp"
#include "tutti/reduce/members.hpp"
#include "tutti/reduce/types.hpp"

namespace tutti {
namespace detail {

// Integers wrap: computed in an unsigned type of at least the width of unsigned int, where that is defined.
template <std::integral T>
using wrapping = std::make_unsigned_t<std::common_type_t<T, int>>;

TUTTI_CALLS_ANY
template <class T>
TUTTI_HOST_DEVICE constexpr T add(T const& a, T const& b) {
  if constexpr (std::is_same_v<T, bool>) return a | b;
  else if constexpr (std::integral<T>) return static_cast<T>(static_cast<wrapping<T>>(a) + static_cast<wrapping<T>>(b));
  else return static_cast<T>(a + b);
}

TUTTI_CALLS_ANY
template <class T>
TUTTI_HOST_DEVICE constexpr T multiply(T const& a, T const& b) {
  if constexpr (std::is_same_v<T, bool>) return a & b;
  else if constexpr (std::integral<T>) return static_cast<T>(static_cast<wrapping<T>>(a) * static_cast<wrapping<T>>(b));
  else return static_cast<T>(a * b);
}

}  // namespace detail

// a + b; of std::pair and std::tuple, the sum of each member. Integers wrap modulo 2^bits; bool: or. Taken as commutative
// and associative, also for a type of the user's.
struct sum : detail::identity_is_zero {
  static constexpr std::string_view name = "sum";
  static constexpr bool commutative = true;

  template <class T>
    requires requires(T const& a) { static_cast<T>(a + a); }
  TUTTI_HOST_DEVICE constexpr T operator()(T const& a, T const& b) const {
    return detail::add(a, b);
  }
  template <class T>
    requires detail::combines_members<sum, T>
  TUTTI_HOST_DEVICE constexpr T operator()(T const& a, T const& b) const {
    return detail::combine_members(*this, a, b);
  }
};

// a * b, as sum. For elements whose product does not commute (matrices) pass a functor of your own.
struct product : detail::identity_is_one {
  static constexpr std::string_view name = "product";
  static constexpr bool commutative = true;

  template <class T>
    requires requires(T const& a) { static_cast<T>(a * a); }
  TUTTI_HOST_DEVICE constexpr T operator()(T const& a, T const& b) const {
    return detail::multiply(a, b);
  }
  template <class T>
    requires detail::combines_members<product, T>
  TUTTI_HOST_DEVICE constexpr T operator()(T const& a, T const& b) const {
    return detail::combine_members(*this, a, b);
  }
};

// The sum divided by the number of ranks. Numbers of 16 and 8 bits are divided in float, before the result is rounded.
// Integers are divided as integers, which rounds towards zero: the mean of 1 and 2 is 1, that of -1 and -2 is -1. Their sum
// wraps first if it does not fit the type. Of std::pair and std::tuple, the mean of each member.
struct mean : detail::identity_is_zero {
  static constexpr std::string_view name = "mean";
  static constexpr bool commutative = true;

  template <class T>
    requires std::invocable<sum, T const&, T const&> && (!std::same_as<T, bool>)
  TUTTI_HOST_DEVICE constexpr T operator()(T const& a, T const& b) const {
    return sum{}(a, b);
  }

  TUTTI_CALLS_ANY
  template <class T>
  TUTTI_HOST_DEVICE constexpr T finish(T const& all, int ranks) const {
    if constexpr (detail::has_members<T>)
      return detail::from_members<T>([&](auto member) { return finish(std::get<member()>(all), ranks); });
    else if constexpr (std::unsigned_integral<T>) return static_cast<T>(all / static_cast<std::uint64_t>(ranks));
    else if constexpr (std::integral<T>) return static_cast<T>(all / static_cast<std::int64_t>(ranks));
    else if constexpr (detail::number<T>) return all / static_cast<T>(ranks);
    else if constexpr (requires { typename T::value_type; }) return all / static_cast<typename T::value_type>(ranks);
    else return static_cast<T>(all / ranks);
  }
};

namespace detail {

template <class Factor, class T>
concept scales = requires(Factor const& factor, T const& x) { static_cast<T>(factor * x); };
// Such as complex numbers, which have no product with a number of another type than their parts.
template <class Factor, class T>
concept scales_parts =
    requires(Factor const& factor, T const& x) { static_cast<T>(static_cast<typename T::value_type>(factor) * x); };

}  // namespace detail

// The sum of factor * x over all contributions x. Each is scaled once, where it enters, and rounded to the element
// type, so a rank's own contribution has the bits that the others receive.
template <class Factor>
struct premultiplied_sum {
  static constexpr std::string_view name = "premultiplied_sum";
  static constexpr bool commutative = true;

  Factor factor;

  template <class T>
    requires requires(T const& a) { static_cast<T>(a + a); } &&
             (detail::scales<Factor, T> || detail::scales_parts<Factor, T>)
  TUTTI_HOST_DEVICE constexpr T operator()(T const& a, T const& b) const {
    return detail::add(a, b);
  }
  template <class T>
  TUTTI_HOST_DEVICE static constexpr T identity() {
    return T{};
  }

  TUTTI_CALLS_ANY
  template <class T>
  TUTTI_HOST_DEVICE constexpr T prepare(T const& x) const {
    if constexpr (std::integral<T> && std::integral<Factor>) return detail::multiply(static_cast<T>(factor), x);
    else if constexpr (detail::scales<Factor, T>) return static_cast<T>(factor * x);
    else return static_cast<T>(static_cast<typename T::value_type>(factor) * x);
  }
};
template <class Factor>
premultiplied_sum(Factor) -> premultiplied_sum<Factor>;

// log(exp(a) + exp(b)) without overflow: the greater, plus what the lesser adds to it. -inf is the identity; NaN stays
// NaN.
struct log_sum_exp {
  static constexpr std::string_view name = "log_sum_exp";
  static constexpr bool commutative = true;

  template <std::floating_point T>
  TUTTI_HOST_DEVICE T operator()(T const& a, T const& b) const {
    T const high = a < b ? b : a, low = a < b ? a : b;
    T const difference = low == high ? T{} : low - high;  // equal infinities have no difference
    return high + std::log1p(std::exp(difference));
  }
  template <std::floating_point T>
  TUTTI_HOST_DEVICE static constexpr T identity() {
    constexpr T value = detail::least<T>;
    return value;
  }
};

}  // namespace tutti
