// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Operations on each member of std::pair and std::tuple.
#pragma once

#include <cstddef>
#include <tuple>
#include <type_traits>
#include <utility>

#include "tutti/reduce/operation.hpp"

namespace tutti {
namespace detail {

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

}  // namespace detail

// Combines each member of a std::pair or std::tuple with an operation of its own, or all members with the same one.
// Operations with a prologue or epilogue (premultiplied_sum, mean) do not compile, because these apply to whole elements.
//
//   std::tuple<double, double, long> const mine{x, x, 1};
//   auto [least, greatest, count] = tutti::all_reduce(comm, mine, tutti::each{tutti::min{}, tutti::max{}, tutti::sum{}});
template <class... Ops>
struct each {
  static constexpr bool commutative = (is_commutative<Ops> && ...);
  static constexpr bool at_once = (detail::combines_at_once<Ops> || ...);

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

}  // namespace tutti
