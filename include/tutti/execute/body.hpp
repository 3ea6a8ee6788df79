// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// How an execution treats elements on the host: it combines them, or only moves them.
#pragma once

#include <cstddef>

#include "tutti/reduce/combine.hpp"
#include "tutti/reduce/ops.hpp"
#include "tutti/reduce/types.hpp"

namespace tutti::detail {

// An operation that is known only at run time has its own loop over elements, which does what tutti::detail::combine does.
template <class Op, class T>
concept brings_its_loop = requires(Op const& op, T const* const* sources, T* const* destinations, std::size_t n) {
  op.combine(sources, 1, destinations, 1, n, stage{});
};

template <class T, class Op>
struct reducing {
  using element = T;
  static constexpr bool reduces = true;
  static constexpr bool prepares = has_prepare<Op, accumulator_for<Op, T>>;
  static constexpr bool finishes = has_finish<Op, accumulator_for<Op, T>>;

  Op const& op;

  TUTTI_CALLS_ANY TUTTI_HOST_DEVICE void operator()(T const* const* sources, int source_count, T* const* destinations,
                                                    int destination_count, std::size_t n, stage s) const noexcept {
    if constexpr (brings_its_loop<Op, T>) op.combine(sources, source_count, destinations, destination_count, n, s);
    else combine(one_thread{}, sources, source_count, destinations, destination_count, n, op, s);
  }
};

// Elements of all types move as bytes, so a schedule that only moves them is compiled once.
struct moving {
  using element = std::byte;
  static constexpr bool reduces = false;
  static constexpr bool prepares = false;
  static constexpr bool finishes = false;

  TUTTI_CALLS_ANY TUTTI_HOST_DEVICE void operator()(std::byte const* const* sources, int,
                                                    std::byte* const* destinations, int destination_count,
                                                    std::size_t n, stage s) const noexcept {
    copy(one_thread{}, sources[0], destinations, destination_count, n, s.stream);
  }
};

}  // namespace tutti::detail
