// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// broadcast: every rank gets the root's array or value.
#pragma once

#include <source_location>
#include <span>
#include <utility>

#include "tutti/call/accepted.hpp"
#include "tutti/call/arrays.hpp"
#include "tutti/call/elements.hpp"

namespace tutti {

// Sends the root's array to all ranks, overwriting their own.
//
// Each rank passes    `data` of the same count, which is equal on all ranks and may be 0
// Throws              error: bad_argument before any communication; mismatch, timeout, rank_lost, rank_left
// Cost                p ranks, an array of b bytes, at the busiest rank: one_shot 1 hop, p-1 messages, (p-1) b bytes;
//                     binomial_tree log2 p hops, b log2 p bytes; two_shot 2 hops, 2b (p-1)/p bytes; ring p-1 hops, b
//                     bytes
// Source              MPI-4.1, 6.4
//
//   tutti::broadcast(comm, weights, 0);
template <class Algorithm = automatic, class Comm, detail::in_place_argument InOut>
  requires detail::host_ranks<Comm>
auto broadcast(Comm&& comm, InOut&& data, int root = 0, options const& o = {},
               std::source_location where = std::source_location::current()) {
  if constexpr (detail::accepts_in_place<Comm, InOut>())
    return detail::perform_on_arrays<collective::broadcast, Algorithm>(
        comm, detail::inputs(data), detail::elements(data), detail::moving{}, root, o, where);
}

template <class Algorithm = automatic, class Comm, detail::in_place_argument InOut>
  requires detail::host_ranks<Comm>
auto broadcast(Comm&& comm, InOut&& data, options const& o,
               std::source_location where = std::source_location::current()) {
  return broadcast<Algorithm>(comm, std::forward<InOut>(data), 0, o, where);
}

// By value: returns the root's number or struct, or, for an array that is const or temporary, a std::vector of the
// root's elements. The arguments of the other ranks only give the type and the count. Blocking calls only.
//
//   config = tutti::broadcast(comm, config, 0);
//   int n = tutti::broadcast(comm, comm.is_main() ? read_size() : 0);
template <class Algorithm = automatic, class Comm, class Value>
  requires detail::host_ranks<Comm> && (!detail::in_place_argument<Value>)
[[nodiscard("the result is returned; the argument does not change")]] auto broadcast(
    Comm&& comm, Value&& value, int root = 0, options const& o = {},
    std::source_location where = std::source_location::current()) {
  if constexpr (detail::accepts_by_value<Comm, Value>())
    return detail::changed(std::forward<Value>(value), [&]<class T>(std::span<T> data) {
      detail::perform_on_arrays<collective::broadcast, Algorithm>(comm, std::span<T const>(data), data,
                                                                  detail::moving{}, root, o, where);
    });
}
template <class Algorithm = automatic, class Comm, class Value>
  requires detail::host_ranks<Comm> && (!detail::in_place_argument<Value>)
[[nodiscard("the result is returned; the argument does not change")]] auto broadcast(
    Comm&& comm, Value&& value, options const& o, std::source_location where = std::source_location::current()) {
  return broadcast<Algorithm>(comm, std::forward<Value>(value), 0, o, where);
}

}  // namespace tutti
