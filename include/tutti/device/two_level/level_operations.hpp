// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// An operation as the two levels of a reduction apply it: its prologue inside nodes, and its epilogue across them.
#pragma once

#include "tutti/device/kernel/jobs.hpp"
#include "tutti/reduce/fused.hpp"
#include "tutti/reduce/operation.hpp"

namespace tutti::detail {

template <class Op, class T>
inline constexpr bool has_stages = has_prepare<Op, accumulator_for<Op, T>> || has_finish<Op, accumulator_for<Op, T>>;

// Combines the contributions of the ranks of a node.
template <class T, class Op>
auto operation_inside(Op const& op) {
  if constexpr (has_prepare<Op, accumulator_for<Op, T>>) return fused{bare<Op>{op}, prepared<T, Op>{op}};
  else if constexpr (has_stages<Op, T>) return bare<Op>{op};
  else return op;
}
// Combines the results of nodes, of `ranks` ranks in all.
template <class T, class Op>
auto operation_across(Op const& op, int ranks) {
  if constexpr (has_finish<Op, accumulator_for<Op, T>>)
    return fused{bare<Op>{op}, unchanged{}, finished<Op>{op, ranks}};
  else if constexpr (has_stages<Op, T>) return bare<Op>{op};
  else return op;
}

}  // namespace tutti::detail
