// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The operations of a reduction: small function objects, called on the accumulator type of the elements.
#pragma once

#include <cmath>
#include <concepts>
#include <cstdint>
#include <limits>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>

#include "tutti/reduce/operation.hpp"

namespace tutti {
namespace detail {

// Integers wrap: computed in an unsigned type of at least the width of unsigned int, where that is defined.
template <std::integral T>
using wrapping = std::make_unsigned_t<std::common_type_t<T, int>>;

template <class T>
concept number = std::is_arithmetic_v<T>;

// The index of no element.
inline constexpr std::int64_t nowhere = std::numeric_limits<std::int64_t>::max();

template <class T, class Limits = std::numeric_limits<T>>
inline constexpr T greatest = Limits::has_infinity ? Limits::infinity() : Limits::max();
template <class T, class Limits = std::numeric_limits<T>>
inline constexpr T least = Limits::has_infinity ? static_cast<T>(-Limits::infinity()) : Limits::lowest();

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

// Calls make(member) with the place of each member of T, and returns a T of the results.
template <class T, class Make>
constexpr T from_members(Make const& make) {
  return [&]<std::size_t... Member>(std::index_sequence<Member...>) {
    return T(static_cast<std::tuple_element_t<Member, T>>(make(std::integral_constant<std::size_t, Member>{}))...);
  }(std::make_index_sequence<std::tuple_size_v<T>>{});
}

// Op combines the members of pairs and tuples one by one.
template <class Op, class T>
inline constexpr bool combines_members = false;
template <class Op, class A, class B>
inline constexpr bool combines_members<Op, std::pair<A, B>> = combines<Op, A> && combines<Op, B>;
template <class Op, class... Members>
inline constexpr bool combines_members<Op, std::tuple<Members...>> = (combines<Op, Members> && ...);

TUTTI_CALLS_ANY
template <class Op, class T>
TUTTI_HOST_DEVICE constexpr T combine_members(Op const& op, T const& a, T const& b) {
  return from_members<T>([&](auto member) { return op(std::get<member()>(a), std::get<member()>(b)); });
}

// Bases of operations whose identity is 0, which is T{} for a type of the user's, or 1.
struct identity_is_zero {
  template <class T>
  TUTTI_HOST_DEVICE static constexpr T identity() {
    return T{};
  }
};
struct identity_is_one {
  template <class T>
  TUTTI_HOST_DEVICE static constexpr T identity() {
    if constexpr (has_members<T>)
      return from_members<T>([](auto member) { return identity<std::tuple_element_t<member(), T>>(); });
    else return static_cast<T>(1);
  }
};

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

// The lesser of two. If any number is NaN, the result is NaN, in whatever order elements are combined. Of equals the left one
// stays (so of -0 and +0). Other types are compared by `b < a` alone: std::pair and std::tuple by their first members, and
// where these are equal by the next (see each for the least of each member).
struct min {
  static constexpr std::string_view name = "min";
  static constexpr bool commutative = true;

  TUTTI_CALLS_ANY
  template <class T>
    requires requires(T const& a) {
      { a < a } -> std::convertible_to<bool>;
    }
  TUTTI_HOST_DEVICE constexpr T operator()(T const& a, T const& b) const {
    if constexpr (std::floating_point<T>) return ((b < a) | (b != b)) ? b : a;
    else return b < a ? b : a;
  }
  template <class T>
    requires std::numeric_limits<T>::is_specialized
  TUTTI_HOST_DEVICE static constexpr T identity() {
    constexpr T value = detail::greatest<T>;
    return value;
  }
};

// The greater of two; everything else as min.
struct max {
  static constexpr std::string_view name = "max";
  static constexpr bool commutative = true;

  TUTTI_CALLS_ANY
  template <class T>
    requires requires(T const& a) {
      { a < a } -> std::convertible_to<bool>;
    }
  TUTTI_HOST_DEVICE constexpr T operator()(T const& a, T const& b) const {
    if constexpr (std::floating_point<T>) return ((a < b) | (b != b)) ? b : a;
    else return a < b ? b : a;
  }
  template <class T>
    requires std::numeric_limits<T>::is_specialized
  TUTTI_HOST_DEVICE static constexpr T identity() {
    constexpr T value = detail::least<T>;
    return value;
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

// a & b, of each bit. Identity: all bits set.
struct bit_and {
  static constexpr std::string_view name = "bit_and";
  static constexpr bool commutative = true;

  template <class T>
    requires requires(T const& a) { static_cast<T>(a & a); }
  TUTTI_HOST_DEVICE constexpr T operator()(T const& a, T const& b) const {
    return static_cast<T>(a & b);
  }
  template <class T>
  TUTTI_HOST_DEVICE static constexpr T identity() {
    if constexpr (std::is_same_v<T, bool>) return true;
    else return static_cast<T>(~T{});
  }
};

// a | b, of each bit. Identity: 0.
struct bit_or : detail::identity_is_zero {
  static constexpr std::string_view name = "bit_or";
  static constexpr bool commutative = true;

  template <class T>
    requires requires(T const& a) { static_cast<T>(a | a); }
  TUTTI_HOST_DEVICE constexpr T operator()(T const& a, T const& b) const {
    return static_cast<T>(a | b);
  }
};

// a ^ b, of each bit. Identity: 0.
struct bit_xor : detail::identity_is_zero {
  static constexpr std::string_view name = "bit_xor";
  static constexpr bool commutative = true;

  template <class T>
    requires requires(T const& a) { static_cast<T>(a ^ a); }
  TUTTI_HOST_DEVICE constexpr T operator()(T const& a, T const& b) const {
    return static_cast<T>(a ^ b);
  }
};

// Whether both are not zero: 0 or 1, in an arithmetic type. (`&` on two bools instead of `&&` avoids a branch in the
// loop.)
struct logical_and : detail::identity_is_one {
  static constexpr std::string_view name = "logical_and";
  static constexpr bool commutative = true;

  template <detail::number T>
  TUTTI_HOST_DEVICE constexpr T operator()(T const& a, T const& b) const {
    return static_cast<T>((a != T{}) & (b != T{}));
  }
};

// Whether at least one is not zero: 0 or 1, in an arithmetic type.
struct logical_or : detail::identity_is_zero {
  static constexpr std::string_view name = "logical_or";
  static constexpr bool commutative = true;

  template <detail::number T>
  TUTTI_HOST_DEVICE constexpr T operator()(T const& a, T const& b) const {
    return static_cast<T>((a != T{}) | (b != T{}));
  }
};

// Whether exactly one is not zero: 0 or 1, in an arithmetic type. Of all ranks: whether an odd number is not zero.
struct logical_xor : detail::identity_is_zero {
  static constexpr std::string_view name = "logical_xor";
  static constexpr bool commutative = true;

  template <detail::number T>
  TUTTI_HOST_DEVICE constexpr T operator()(T const& a, T const& b) const {
    return static_cast<T>((a != T{}) != (b != T{}));
  }
};

// The sum of factor * x over all contributions x. Each is scaled once, where it enters, and rounded to the element
// type, so a rank's own contribution has the bits that the others receive.
template <class Factor>
struct premultiplied_sum {
  static constexpr std::string_view name = "premultiplied_sum";
  static constexpr bool commutative = true;

  Factor factor;

  template <class T>
    requires std::invocable<sum, T const&, T const&>
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
    else return static_cast<T>(factor * x);
  }
};
template <class Factor>
premultiplied_sum(Factor) -> premultiplied_sum<Factor>;

// The element located{value, index} with the greatest value; among equal values the one with the least index (as
// MPI_MAXLOC). If values do not compare, because one is NaN, the left one stays.
//
//   auto best = tutti::all_reduce(comm, tutti::located{score, comm.rank()}, tutti::argmax{});
//   if (comm.rank() == best.index) save(model);
struct max_location {
  static constexpr std::string_view name = "max_location";
  static constexpr bool commutative = true;

  template <class T>
  TUTTI_HOST_DEVICE constexpr located<T> operator()(located<T> const& a, located<T> const& b) const {
    return a.value < b.value || (a.value == b.value && b.index < a.index) ? b : a;
  }
  template <class Located>
  TUTTI_HOST_DEVICE static constexpr Located identity() {
    return {max::identity<decltype(Located::value)>(), detail::nowhere};
  }
};

// The same for the least value (as MPI_MINLOC).
struct min_location {
  static constexpr std::string_view name = "min_location";
  static constexpr bool commutative = true;

  template <class T>
  TUTTI_HOST_DEVICE constexpr located<T> operator()(located<T> const& a, located<T> const& b) const {
    return b.value < a.value || (a.value == b.value && b.index < a.index) ? b : a;
  }
  template <class Located>
  TUTTI_HOST_DEVICE static constexpr Located identity() {
    return {min::identity<decltype(Located::value)>(), detail::nowhere};
  }
};

// The greatest value with its index, see max_location.
using argmax = max_location;

// The least value with its index, see min_location.
using argmin = min_location;

// Combines each member of a std::pair or std::tuple with an operation of its own, or all members with the same one.
// Operations with a prologue or epilogue (premultiplied_sum, mean) do not compile, because these apply to whole elements.
//
//   std::tuple<double, double, long> const mine{x, x, 1};
//   auto [least, greatest, count] = tutti::all_reduce(comm, mine, tutti::each{tutti::min{}, tutti::max{}, tutti::sum{}});
template <class... Ops>
struct each {
  static constexpr bool commutative = (is_commutative<Ops> && ...);

  constexpr explicit each(Ops... ops) : operations(std::move(ops)...) {}

  template <class T>
    requires detail::has_members<T> && (sizeof...(Ops) == 1 || sizeof...(Ops) == std::tuple_size_v<T>)
  constexpr T operator()(T const& a, T const& b) const {
    return detail::from_members<T>([&](auto member) {
      constexpr std::size_t place = sizeof...(Ops) == 1 ? 0 : member();
      auto const& op = std::get<place>(operations);
      using value = std::tuple_element_t<member(), T>;
      using op_type = std::remove_cvref_t<decltype(op)>;
      static_assert(!detail::has_prepare<op_type, value> && !detail::has_finish<op_type, value>,
                    "tutti::each takes operations without prologue and epilogue; use tutti::sum and divide");
      return op(std::get<member()>(a), std::get<member()>(b));
    });
  }

  std::tuple<Ops...> operations;
};

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
