// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Compile-time checks of an algorithm that a call names by its type.
#pragma once

#include <type_traits>

#include "tutti/algorithm/concept.hpp"
#include "tutti/reduce/operation.hpp"

namespace tutti::detail {

// Op is void if nothing is combined.
template <class Algorithm, collective C, class Op>
constexpr void expect_legal() {
  static_assert(serves<Algorithm, C>,
                "this algorithm does not serve this collective; leave the choice to tutti, or see "
                "include/tutti/algorithm/ for the algorithms of each collective (an operation is an argument: "
                "all_reduce(comm, data, tutti::max{}))");
  if constexpr (serves<Algorithm, C> && !std::is_void_v<Op>)
    static_assert(
        !schedule<Algorithm, C>::needs_commutative || is_commutative<Op>,
        "this algorithm combines contributions out of rank order; use tutti::binomial_tree or tutti::one_shot, or "
        "mark the operation with tutti::commutative");
  if constexpr (serves<Algorithm, C> && !std::is_void_v<Op>)
    static_assert(
        combines_in_one_step<schedule<Algorithm, C>> || !combines_at_once<Op>,
        "this algorithm sends partial results, but the operation must combine all contributions in one step; use "
        "tutti::two_shot or tutti::one_shot");
}

}  // namespace tutti::detail
