// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Policies of sums: in_any_order, rank_ordered, reproducible_sum, compensated_sum.
#pragma once

#include <concepts>
#include <string_view>

#include "tutti/core/config.hpp"
#include "tutti/core/type_name.hpp"
#include "tutti/reduce/binned.hpp"
#include "tutti/reduce/compensated.hpp"
#include "tutti/reduce/identity.hpp"
#include "tutti/reduce/operation.hpp"

namespace tutti {

// Lets hardware combine, in an order and with a rounding of its own. It does so among GPUs behind an NVLink switch, for sums of
// float, half and bfloat16 in memory of `allocate` (docs/gpu.md). All ranks still get the same bits, but these may differ from those
// of Op, which computes everywhere else. Wants a commutative Op.
//
//   tutti::all_reduce(ranks, in, out, tutti::in_any_order{tutti::sum{}}, {.symmetric = true});
template <class Op>
struct in_any_order : Op {
  static_assert(is_commutative<Op>, "an operation that does not commute has an order; pass it as it is");
  static constexpr std::string_view name = detail::type_name<in_any_order>();
};
template <class Op>
in_any_order(Op) -> in_any_order<Op>;

// Combines as ((x0 + x1) + x2) + ..., in rank order, in the accumulator of the elements, and rounds once. So the bits are
// those of a loop over ranks: they depend on the contributions and the number of ranks, but not on the count, the place of
// an element, the algorithm, or the nodes. Algorithms: one_shot and two_shot.
//
//   tutti::all_reduce(comm, in, out, tutti::rank_ordered{tutti::sum{}});
template <class Op>
struct rank_ordered : Op {
  static constexpr bool commutative = false;
  static constexpr bool at_once = true;
  static constexpr std::string_view name = detail::type_name<rank_ordered>();
};
template <class Op>
rank_ordered(Op) -> rank_ordered<Op>;

// Sums of float and double whose bits do not depend on the order in which ranks, or the library, add: every contribution to
// an element enters a binned number, which is rounded once. The same contributions from other ranks give the same bits. Where
// each rank first adds up numbers of its own, do that in tutti::binned and reduce these by tutti::sum: then the bits do not depend
// on the number of ranks either, and any algorithm serves. Sends as many bytes as sum. Algorithms: one_shot and two_shot.
//
//   tutti::all_reduce(comm, in, out, tutti::reproducible_sum{});
struct reproducible_sum : detail::identity_is_zero {
  static constexpr std::string_view name = "reproducible_sum";
  static constexpr bool commutative = true;
  static constexpr bool at_once = true;
  template <std::floating_point T>
  using accumulator = binned<T>;

  template <std::floating_point T>
  constexpr binned<T> operator()(binned<T> const& a, binned<T> const& b) const {
    return a + b;
  }
};

// Sums of float, double and long double that are rounded to the type of the elements once; until then, every addition is
// rounded to twice its digits. Sends as many bytes as sum. Algorithms: one_shot and two_shot.
//
//   tutti::all_reduce(comm, in, out, tutti::compensated_sum{});
struct compensated_sum : detail::identity_is_zero {
  static constexpr std::string_view name = "compensated_sum";
  static constexpr bool commutative = true;
  static constexpr bool at_once = true;
  template <std::floating_point T>
  using accumulator = compensated<T>;

  template <std::floating_point T>
  TUTTI_HOST_DEVICE constexpr compensated<T> operator()(compensated<T> const& a, compensated<T> const& b) const {
    return a + b;
  }
};

}  // namespace tutti
