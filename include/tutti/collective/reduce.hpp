// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// reduce: the root gets the combination of all ranks' arrays or values.
#pragma once

#include <concepts>
#include <optional>
#include <source_location>
#include <span>
#include <utility>

#include "tutti/call/accepted.hpp"
#include "tutti/call/arrays.hpp"
#include "tutti/call/elements.hpp"

namespace tutti {

// Combines the arrays of all ranks element by element; the root gets the result: out[i] = op over all ranks q of
// in_q[i].
//
// Each rank passes    `in` of the same count; the root passes `out` of that count, which no other rank touches: others
//                     may pass {}, followed by the operation
// In place            one array for both at the root. Otherwise they must not overlap.
// Order, errors       as all_reduce
// Cost                p ranks, arrays of b bytes, at the busiest rank: one_shot 1 hop, p-1 messages to the root, which
//                     combines (p-1) b bytes; binomial_tree log2 p hops, b log2 p bytes; two_shot 2 hops, 2b (p-1)/p
//                     bytes
// Source              MPI-4.1, 6.9.1
//
//   tutti::reduce(comm, partial, total, tutti::max{}, 0);
//   tutti::reduce(comm, partial, total, 0);                            // the sum
template <class Algorithm = automatic, class Comm, class In,
          detail::array_argument Out = std::span<detail::element_in<In>>, class Op = sum>
  requires detail::host_ranks<Comm> && (!std::integral<Op>)
auto reduce(Comm&& comm, In&& in, Out&& out, Op const& op = {}, int root = 0, options const& o = {},
            std::source_location where = std::source_location::current()) {
  if constexpr (detail::accepts<Comm, In, Out, Op>())
    return detail::perform_on_arrays<collective::reduce, Algorithm>(comm, detail::inputs(in), detail::elements(out), op,
                                                                    root, o, where);
}
template <class Algorithm = automatic, class Comm, class In, detail::array_argument Out>
  requires detail::host_ranks<Comm>
auto reduce(Comm&& comm, In&& in, Out&& out, int root, options const& o = {},
            std::source_location where = std::source_location::current()) {
  return reduce<Algorithm>(comm, std::forward<In>(in), std::forward<Out>(out), sum{}, root, o, where);
}
template <class Algorithm = automatic, class Comm, class In,
          detail::array_argument Out = std::span<detail::element_in<In>>, class Op>
  requires detail::host_ranks<Comm>
auto reduce(Comm&& comm, In&& in, Out&& out, Op const& op, options const& o,
            std::source_location where = std::source_location::current()) {
  return reduce<Algorithm>(comm, std::forward<In>(in), std::forward<Out>(out), op, 0, o, where);
}
template <class Algorithm = automatic, class Comm, class In, detail::array_argument Out>
  requires detail::host_ranks<Comm>
auto reduce(Comm&& comm, In&& in, Out&& out, options const& o,
            std::source_location where = std::source_location::current()) {
  return reduce<Algorithm>(comm, std::forward<In>(in), std::forward<Out>(out), sum{}, 0, o, where);
}

// In place: the root's array is replaced by the result; the arrays of other ranks do not change.
//
//   tutti::reduce(comm, histogram, 0);
template <class Algorithm = automatic, class Comm, detail::in_place_argument InOut, detail::operation_argument Op = sum>
  requires detail::host_ranks<Comm> && (!std::integral<Op>)
auto reduce(Comm&& comm, InOut&& data, Op const& op = {}, int root = 0, options const& o = {},
            std::source_location where = std::source_location::current()) {
  if constexpr (detail::accepts_in_place<Comm, InOut, Op>())
    return detail::perform_on_arrays<collective::reduce, Algorithm>(comm, detail::inputs(data), detail::elements(data),
                                                                    op, root, o, where);
}
template <class Algorithm = automatic, class Comm, detail::in_place_argument InOut>
  requires detail::host_ranks<Comm>
auto reduce(Comm&& comm, InOut&& data, int root, options const& o = {},
            std::source_location where = std::source_location::current()) {
  return reduce<Algorithm>(comm, data, sum{}, root, o, where);
}
template <class Algorithm = automatic, class Comm, detail::in_place_argument InOut, detail::operation_argument Op>
  requires detail::host_ranks<Comm>
auto reduce(Comm&& comm, InOut&& data, Op const& op, options const& o,
            std::source_location where = std::source_location::current()) {
  return reduce<Algorithm>(comm, data, op, 0, o, where);
}
template <class Algorithm = automatic, class Comm, detail::in_place_argument InOut>
  requires detail::host_ranks<Comm>
auto reduce(Comm&& comm, InOut&& data, options const& o, std::source_location where = std::source_location::current()) {
  return reduce<Algorithm>(comm, data, sum{}, 0, o, where);
}

// By value: the root gets the result. For a number or struct the result is a std::optional, empty elsewhere; for an
// array that is const or temporary it is a std::vector, empty elsewhere. Blocking calls only.
//
//   if (std::optional<double> total = tutti::reduce(comm, mine)) std::printf("%g\n", *total);
template <class Algorithm = automatic, class Comm, class Value, detail::operation_argument Op = sum>
  requires detail::host_ranks<Comm> && (!detail::in_place_argument<Value>) && (!std::integral<Op>)
[[nodiscard("the result is returned; the argument does not change")]] auto reduce(
    Comm&& comm, Value&& value, Op const& op = {}, int root = 0, options const& o = {},
    std::source_location where = std::source_location::current()) {
  if constexpr (detail::accepts_by_value<Comm, Value, Op>()) {
    auto result = detail::changed(std::forward<Value>(value), [&]<class T>(std::span<T> data) {
      detail::perform_on_arrays<collective::reduce, Algorithm>(comm, std::span<T const>(data), data, op, root, o,
                                                               where);
    });
    using one_result = decltype(result);
    if constexpr (detail::array_argument<Value>) return comm.rank() == root ? std::move(result) : one_result();
    else return comm.rank() == root ? std::optional<one_result>(result) : std::nullopt;
  }
}
template <class Algorithm = automatic, class Comm, class Value>
  requires detail::host_ranks<Comm> && (!detail::in_place_argument<Value>)
[[nodiscard("the result is returned; the argument does not change")]] auto reduce(
    Comm&& comm, Value&& value, int root, options const& o = {},
    std::source_location where = std::source_location::current()) {
  return reduce<Algorithm>(comm, std::forward<Value>(value), sum{}, root, o, where);
}
template <class Algorithm = automatic, class Comm, class Value, detail::operation_argument Op>
  requires detail::host_ranks<Comm> && (!detail::in_place_argument<Value>)
[[nodiscard("the result is returned; the argument does not change")]] auto reduce(
    Comm&& comm, Value&& value, Op const& op, options const& o,
    std::source_location where = std::source_location::current()) {
  return reduce<Algorithm>(comm, std::forward<Value>(value), op, 0, o, where);
}
template <class Algorithm = automatic, class Comm, class Value>
  requires detail::host_ranks<Comm> && (!detail::in_place_argument<Value>)
[[nodiscard("the result is returned; the argument does not change")]] auto reduce(
    Comm&& comm, Value&& value, options const& o, std::source_location where = std::source_location::current()) {
  return reduce<Algorithm>(comm, std::forward<Value>(value), sum{}, 0, o, where);
}

}  // namespace tutti
