// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// all_reduce: every rank gets the combination of all ranks' arrays or values.
#pragma once

#include <source_location>
#include <span>
#include <utility>

#include "tutti/call/accepted.hpp"
#include "tutti/call/arrays.hpp"
#include "tutti/call/elements.hpp"

namespace tutti {

// Combines the arrays of all ranks element by element; every rank gets the result: out[i] = op over all ranks q of
// in_q[i].
//
// Each rank passes    `in` and `out` of the same count, which is equal on all ranks and may be 0
// In place            one array for both (or two that start at the same element). Otherwise they must not overlap.
// Order               any if the operation is commutative, else rank order. The grouping depends only on the algorithm,
//                     the count, the number of ranks and their nodes, so the bits are the same on all ranks. They are
//                     the same in every run, too, if you name the algorithm, or tutti chooses it with the same cores
//                     and the same tuning table.
// Throws              error: bad_argument before any communication; mismatch, timeout, rank_lost, rank_left
// Cost                p ranks, arrays of b bytes, at the busiest rank: one_shot 1 hop, p-1 messages, (p-1) b bytes;
//                     two_shot 2 hops, 2(p-1) messages, 2b (p-1)/p bytes; recursive_doubling log2 p hops, b log2 p
//                     bytes; recursive_halving 2 log2 p hops and ring 2(p-1) hops, each 2b (p-1)/p bytes; see
//                     docs/collectives.md
// Source              MPI-4.1, 6.9.6
//
//   tutti::all_reduce(comm, in, out, tutti::max{});
//   tutti::all_reduce(comm, in, out, {.timeout = 5s});                 // the sum
//   tutti::all_reduce<tutti::ring>(comm, in, out);
template <class Algorithm = automatic, class Comm, class In, detail::array_argument Out, class Op = sum>
  requires detail::host_ranks<Comm>
auto all_reduce(Comm&& comm, In&& in, Out&& out, Op const& op = {}, options const& o = {},
                std::source_location where = std::source_location::current()) {
  if constexpr (detail::accepts<Comm, In, Out, Op>())
    return detail::perform_on_arrays<collective::all_reduce, Algorithm>(comm, detail::inputs(in), detail::elements(out),
                                                                        op, 0, o, where);
}
template <class Algorithm = automatic, class Comm, class In, detail::array_argument Out>
  requires detail::host_ranks<Comm>
auto all_reduce(Comm&& comm, In&& in, Out&& out, options const& o,
                std::source_location where = std::source_location::current()) {
  return all_reduce<Algorithm>(comm, std::forward<In>(in), std::forward<Out>(out), sum{}, o, where);
}

// In place: the array is replaced by the result.
//
//   tutti::all_reduce(comm, gradient);
//   tutti::all_reduce(comm, gradient, tutti::mean{});
template <class Algorithm = automatic, class Comm, detail::in_place_argument InOut, detail::operation_argument Op = sum>
  requires detail::host_ranks<Comm> && (!detail::lists_arrays<InOut, Op>)
auto all_reduce(Comm&& comm, InOut&& data, Op const& op = {}, options const& o = {},
                std::source_location where = std::source_location::current()) {
  if constexpr (detail::accepts_in_place<Comm, InOut, Op>())
    return detail::perform_on_arrays<collective::all_reduce, Algorithm>(comm, detail::inputs(data),
                                                                        detail::elements(data), op, 0, o, where);
}
template <class Algorithm = automatic, class Comm, detail::in_place_argument InOut>
  requires detail::host_ranks<Comm> && (!detail::lists_arrays<InOut, sum>)
auto all_reduce(Comm&& comm, InOut&& data, options const& o,
                std::source_location where = std::source_location::current()) {
  return all_reduce<Algorithm>(comm, data, sum{}, o, where);
}

// By value: returns the combined number or struct, or for an array that is const or temporary a std::vector. Blocking
// calls only.
//
//   int total = tutti::all_reduce(comm, mine);
//   double norm = std::sqrt(tutti::all_reduce(comm, x * x));
//   auto best = tutti::all_reduce(comm, tutti::located{loss, comm.rank()}, tutti::argmin{});
template <class Algorithm = automatic, class Comm, class Value, detail::operation_argument Op = sum>
  requires detail::host_ranks<Comm> && (!detail::in_place_argument<Value>) && (!detail::lists_arrays<Value, Op>)
[[nodiscard("the result is returned; the argument does not change")]] auto all_reduce(
    Comm&& comm, Value&& value, Op const& op = {}, options const& o = {},
    std::source_location where = std::source_location::current()) {
  if constexpr (detail::accepts_by_value<Comm, Value, Op>())
    return detail::changed(std::forward<Value>(value), [&]<class T>(std::span<T> data) {
      detail::perform_on_arrays<collective::all_reduce, Algorithm>(comm, std::span<T const>(data), data, op, 0, o,
                                                                   where);
    });
}
template <class Algorithm = automatic, class Comm, class Value>
  requires detail::host_ranks<Comm> && (!detail::in_place_argument<Value>) && (!detail::lists_arrays<Value, sum>)
[[nodiscard("the result is returned; the argument does not change")]] auto all_reduce(
    Comm&& comm, Value&& value, options const& o, std::source_location where = std::source_location::current()) {
  return all_reduce<Algorithm>(comm, std::forward<Value>(value), sum{}, o, where);
}

}  // namespace tutti
