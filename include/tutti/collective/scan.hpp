// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// scan and exclusive_scan: rank r gets the combination of the arrays of the ranks up to r, with or without its own.
#pragma once

#include <algorithm>
#include <source_location>
#include <span>
#include <utility>

#include "tutti/call/accepted.hpp"
#include "tutti/call/arrays.hpp"
#include "tutti/call/elements.hpp"

namespace tutti {
namespace detail {

// Rank 0 has no ranks before it.
template <class T, class Op>
T before_all() {
  using A = accumulator_for<Op, T>;
  static_assert(
      has_identity<Op, A>,
      "an exclusive_scan by value returns the operation's identity at rank 0; give the operation an identity(), or "
      "pass arrays, of which rank 0's output stays as it is");
  if constexpr (has_identity<Op, A>) return static_cast<T>(identity_of<Op, A>());
}

}  // namespace detail

// Combines the arrays of the ranks up to this one, element by element: out_r[i] = op over ranks 0..r of in_q[i].
//
// Each rank passes    `in` and `out` of the same count, which is equal on all ranks
// In place            one array for both. Otherwise they must not overlap.
// Order               rank order
// Throws              error: bad_argument before any communication; mismatch, timeout, rank_lost, rank_left
// Cost                p ranks, arrays of b bytes, at the busiest rank: one_shot 1 hop, p-1 messages, (p-1) b bytes;
//                     recursive_doubling log2 p hops, b log2 p bytes; ring p-1 hops, b bytes; two_level an
//                     exclusive scan of b bytes between nodes
// Source              MPI-4.1, 6.11.1
//
//   tutti::scan(comm, counts, ends);
template <class Algorithm = automatic, class Comm, class In, detail::array_argument Out, class Op = sum>
  requires detail::host_ranks<Comm>
auto scan(Comm&& comm, In&& in, Out&& out, Op const& op = {}, options const& o = {},
          std::source_location where = std::source_location::current()) {
  if constexpr (detail::accepts<Comm, In, Out, Op>())
    return detail::perform_on_arrays<collective::scan, Algorithm>(comm, detail::inputs(in), detail::elements(out), op,
                                                                  0, o, where);
}
template <class Algorithm = automatic, class Comm, class In, detail::array_argument Out>
  requires detail::host_ranks<Comm>
auto scan(Comm&& comm, In&& in, Out&& out, options const& o,
          std::source_location where = std::source_location::current()) {
  return scan<Algorithm>(comm, std::forward<In>(in), std::forward<Out>(out), sum{}, o, where);
}
template <class Algorithm = automatic, class Comm, detail::in_place_argument InOut, detail::operation_argument Op = sum>
  requires detail::host_ranks<Comm>
auto scan(Comm&& comm, InOut&& data, Op const& op = {}, options const& o = {},
          std::source_location where = std::source_location::current()) {
  if constexpr (detail::accepts_in_place<Comm, InOut, Op>())
    return detail::perform_on_arrays<collective::scan, Algorithm>(comm, detail::inputs(data), detail::elements(data),
                                                                  op, 0, o, where);
}
template <class Algorithm = automatic, class Comm, detail::in_place_argument InOut>
  requires detail::host_ranks<Comm>
auto scan(Comm&& comm, InOut&& data, options const& o, std::source_location where = std::source_location::current()) {
  return scan<Algorithm>(comm, data, sum{}, o, where);
}

// By value, as all_reduce.
//
//   std::size_t const end = tutti::scan(comm, mine.size());
template <class Algorithm = automatic, class Comm, class Value, detail::operation_argument Op = sum>
  requires detail::host_ranks<Comm> && (!detail::in_place_argument<Value>)
[[nodiscard("the result is returned; the argument does not change")]] auto scan(
    Comm&& comm, Value&& value, Op const& op = {}, options const& o = {},
    std::source_location where = std::source_location::current()) {
  if constexpr (detail::accepts_by_value<Comm, Value, Op>())
    return detail::changed(std::forward<Value>(value), [&]<class T>(std::span<T> data) {
      detail::perform_on_arrays<collective::scan, Algorithm>(comm, std::span<T const>(data), data, op, 0, o, where);
    });
}
template <class Algorithm = automatic, class Comm, class Value>
  requires detail::host_ranks<Comm> && (!detail::in_place_argument<Value>)
[[nodiscard("the result is returned; the argument does not change")]] auto scan(
    Comm&& comm, Value&& value, options const& o, std::source_location where = std::source_location::current()) {
  return scan<Algorithm>(comm, std::forward<Value>(value), sum{}, o, where);
}

// The same over the ranks before this one, 0..r-1. Rank 0's output is not changed: fill it with the identity beforehand
// if needed. See MPI-4.1, 6.11.2.
//
//   std::array<std::size_t, 1> offset{0};
//   tutti::exclusive_scan(comm, counts, offset);
template <class Algorithm = automatic, class Comm, class In, detail::array_argument Out, class Op = sum>
  requires detail::host_ranks<Comm>
auto exclusive_scan(Comm&& comm, In&& in, Out&& out, Op const& op = {}, options const& o = {},
                    std::source_location where = std::source_location::current()) {
  if constexpr (detail::accepts<Comm, In, Out, Op>())
    return detail::perform_on_arrays<collective::exclusive_scan, Algorithm>(comm, detail::inputs(in),
                                                                            detail::elements(out), op, 0, o, where);
}
template <class Algorithm = automatic, class Comm, class In, detail::array_argument Out>
  requires detail::host_ranks<Comm>
auto exclusive_scan(Comm&& comm, In&& in, Out&& out, options const& o,
                    std::source_location where = std::source_location::current()) {
  return exclusive_scan<Algorithm>(comm, std::forward<In>(in), std::forward<Out>(out), sum{}, o, where);
}
template <class Algorithm = automatic, class Comm, detail::in_place_argument InOut, detail::operation_argument Op = sum>
  requires detail::host_ranks<Comm>
auto exclusive_scan(Comm&& comm, InOut&& data, Op const& op = {}, options const& o = {},
                    std::source_location where = std::source_location::current()) {
  if constexpr (detail::accepts_in_place<Comm, InOut, Op>())
    return detail::perform_on_arrays<collective::exclusive_scan, Algorithm>(comm, detail::inputs(data),
                                                                            detail::elements(data), op, 0, o, where);
}
template <class Algorithm = automatic, class Comm, detail::in_place_argument InOut>
  requires detail::host_ranks<Comm>
auto exclusive_scan(Comm&& comm, InOut&& data, options const& o,
                    std::source_location where = std::source_location::current()) {
  return exclusive_scan<Algorithm>(comm, data, sum{}, o, where);
}

// By value, as all_reduce; rank 0 gets the identity of the operation, which must have one.
//
//   std::size_t const begin = tutti::exclusive_scan(comm, mine.size());
template <class Algorithm = automatic, class Comm, class Value, detail::operation_argument Op = sum>
  requires detail::host_ranks<Comm> && (!detail::in_place_argument<Value>)
[[nodiscard("the result is returned; the argument does not change")]] auto exclusive_scan(
    Comm&& comm, Value&& value, Op const& op = {}, options const& o = {},
    std::source_location where = std::source_location::current()) {
  if constexpr (detail::accepts_by_value<Comm, Value, Op>())
    return detail::changed(std::forward<Value>(value), [&]<class T>(std::span<T> data) {
      detail::perform_on_arrays<collective::exclusive_scan, Algorithm>(comm, std::span<T const>(data), data, op, 0, o,
                                                                       where);
      if (comm.rank() == 0) std::ranges::fill(data, detail::before_all<T, Op>());
    });
}
template <class Algorithm = automatic, class Comm, class Value>
  requires detail::host_ranks<Comm> && (!detail::in_place_argument<Value>)
[[nodiscard("the result is returned; the argument does not change")]] auto exclusive_scan(
    Comm&& comm, Value&& value, options const& o, std::source_location where = std::source_location::current()) {
  return exclusive_scan<Algorithm>(comm, std::forward<Value>(value), sum{}, o, where);
}

}  // namespace tutti
