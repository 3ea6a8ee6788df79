// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The concept of an operation, and the optional members by which it describes itself.
#pragma once

#include <concepts>
#include <initializer_list>
#include <string_view>
#include <type_traits>
#include <utility>

#include "tutti/core/config.hpp"
#include "tutti/core/type_name.hpp"
#include "tutti/reduce/types.hpp"

namespace tutti {
namespace detail {

template <class Op, class A>
concept combines = requires(Op const& op, A const& a) {
  { op(a, a) } -> std::convertible_to<A>;
};

// The operation names the type in which it combines elements T.
template <class Op, class T>
concept names_accumulator = requires { typename Op::template accumulator<T>; };

// Not a constrained specialisation: g++ 12 takes the wrong one for some pairs in large translation units.
template <class Op, class T>
struct accumulator {
  static constexpr auto find() {
    if constexpr (names_accumulator<Op, T>) return std::type_identity<typename Op::template accumulator<T>>{};
    else return std::type_identity<typename element_traits<T>::accumulator>{};
  }
  using wide = typename decltype(find())::type;
  using type = std::conditional_t<combines<Op, wide>, wide, T>;
};

}  // namespace detail

// The type in which Op combines elements T: the accumulator of T if Op accepts it, otherwise T itself, as for a user's functor
// of two bfloat16.
template <class Op, class T>
using accumulator_for = typename detail::accumulator<Op, T>::type;

// An operation on elements T: a copyable function object that can be called const on two accumulators and is
// **associative** up to rounding. It may run on any thread. If it throws on the host, the call fails on all ranks; on a device, and
// within native, it must not throw. Optional members:
//
//   static constexpr bool commutative            the order of operands does not matter (default: it does, see below)
//   static constexpr bool at_once                all contributions to an element are combined in one place, from left to
//                                                right in rank order, and rounded once; algorithms that send partial
//                                                results are not used
//   template <class T> using accumulator         in which elements T are combined (default: that of element_traits<T>)
//   static constexpr std::string_view name       for error messages (default: the name of the type)
//   template <class T> static constexpr T identity()     or, of one type, static constexpr T identity()
//   A prepare(A) const                           applied once to each contribution before it is combined
//   A finish(A, int ranks) const                 applied once to the complete result before it is rounded
//
// Ranks are checked to pass the same operation by the name of its type and its size. With g++, lambdas of one function with the same
// signature share a name, so passing different ones goes undetected; use a struct, whose name is unique. Captured values are not
// compared.
//
//   struct hypotenuse {
//     static constexpr bool commutative = true;
//     double operator()(double a, double b) const { return std::sqrt(a * a + b * b); }
//   };
template <class Op, class T>
concept operation = element<T> && std::copy_constructible<Op> && detail::combines<Op, accumulator_for<Op, T>>;

namespace detail {

template <class Op, class A>
concept has_prepare = requires(Op const& op, A const& a) {
  { op.prepare(a) } -> std::convertible_to<A>;
};

template <class Op, class A>
concept has_finish = requires(Op const& op, A const& a, int ranks) {
  { op.finish(a, ranks) } -> std::convertible_to<A>;
};

template <class Op, class A>
concept has_identity_of_any = requires {
  { Op::template identity<A>() } -> std::same_as<A>;
};
template <class Op, class A>
concept has_identity = has_identity_of_any<Op, A> || requires {
  { Op::identity() } -> std::convertible_to<A>;
};
template <class Op, class A>
  requires has_identity<Op, A>
constexpr A identity_of() {
  if constexpr (has_identity_of_any<Op, A>) return Op::template identity<A>();
  else return Op::identity();
}

// The function objects of the standard library (and of CUDA's) on numbers are recognised by name: <functional> would
// cost every user a quarter of a second of compile time.
constexpr bool is_standard(std::string_view name, std::initializer_list<std::string_view> known) {
  if (!name.starts_with("std::") && !name.starts_with("cuda::std::")) return false;
  name = name.substr(0, name.find('<'));
  name = name.substr(name.rfind(':') + 1);
  for (std::string_view const one : known)
    if (name == one) return true;
  return false;
}

template <class Op>
inline constexpr bool standard_operation = false;
template <template <class> class Op, class T>
  requires std::is_void_v<T> || std::is_arithmetic_v<T>
inline constexpr bool standard_operation<Op<T>> = is_standard(
    type_name<Op<T>>(), {"plus", "multiplies", "bit_and", "bit_or", "bit_xor", "logical_and", "logical_or"});

// Members of these names that are no constants are the operation's own affair.
template <class Op>
inline constexpr bool combines_at_once = [] {
  if constexpr (requires { typename std::bool_constant<static_cast<bool>(Op::at_once)>; }) return Op::at_once;
  else return false;
}();

template <class Op>
constexpr bool commutes() {
  if constexpr (requires { typename std::bool_constant<static_cast<bool>(Op::commutative)>; }) return Op::commutative;
  else return standard_operation<Op>;
}

}  // namespace detail

// Without the member, a functor is taken to be associative but not commutative, which is always safe.
template <class Op>
inline constexpr bool is_commutative = detail::commutes<Op>();

namespace detail {

// A function object marked as commutative, with all other members unchanged.
template <class F>
struct marked_commutative : F {
  static constexpr bool commutative = true;
};

}  // namespace detail

// commutative([](float a, float b) { return a + b; })
template <class F>
  requires std::is_class_v<F>
constexpr detail::marked_commutative<F> commutative(F function) {
  return {std::move(function)};
}

namespace detail {

// The `name` of an operation, or that of its type.
template <class Op>
constexpr std::string_view name_of() {
  if constexpr (requires { typename std::bool_constant<std::string_view{Op::name}.empty()>; }) return Op::name;
  else return type_name<Op>();
}

// An operation without its prologue and epilogue.
template <class Op>
struct bare {
  static constexpr bool commutative = is_commutative<Op>;
  static constexpr std::string_view name = name_of<Op>();
  using bare_form_of = Op;  // a library may have it
  Op op;

  TUTTI_CALLS_ANY
  template <class A>
    requires combines<Op, A>
  TUTTI_HOST_DEVICE A operator()(A const& a, A const& b) const {
    return op(a, b);
  }
};

}  // namespace detail

}  // namespace tutti
