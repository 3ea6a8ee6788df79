// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// scatter and scatter_v: every rank gets its block of the root's array.
#pragma once

#include <concepts>
#include <cstddef>
#include <source_location>
#include <span>
#include <utility>

#include "tutti/call/accepted.hpp"
#include "tutti/call/arrays.hpp"
#include "tutti/call/elements.hpp"
#include "tutti/collective/received_blocks.hpp"

namespace tutti {

// Distributes the root's array: `out` of rank r is block r of the root's `in`.
//
// Each rank passes    `out` of n elements, n equal on all ranks; the root passes `in` of n * size, which no other rank
//                     reads: others may pass {}
// In place            the root's `out` is its block of `in`. Otherwise they must not overlap.
// Throws              error: bad_argument before any communication; mismatch, timeout, rank_lost, rank_left
// Cost                p ranks, blocks of n bytes; the root sends (p-1) n bytes: one_shot in 1 hop of p-1 messages,
//                     binomial_tree in log2 p hops of one message each
// Source              MPI-4.1, 6.6
//
//   tutti::scatter(comm, all, mine, 0);
template <class Algorithm = automatic, class Comm, detail::array_argument Out,
          class In = std::span<detail::element_in<Out> const>>
  requires detail::host_ranks<Comm>
auto scatter(Comm&& comm, In&& in, Out&& out, int root = 0, options const& o = {},
             std::source_location where = std::source_location::current()) {
  if constexpr (detail::accepts<Comm, In, Out>())
    return detail::perform_on_arrays<collective::scatter, Algorithm>(comm, detail::inputs(in), detail::elements(out),
                                                                     detail::moving{}, root, o, where);
}
template <class Algorithm = automatic, class Comm, detail::array_argument Out,
          class In = std::span<detail::element_in<Out> const>>
  requires detail::host_ranks<Comm>
auto scatter(Comm&& comm, In&& in, Out&& out, options const& o,
             std::source_location where = std::source_location::current()) {
  return scatter<Algorithm>(comm, std::forward<In>(in), std::forward<Out>(out), 0, o, where);
}

// By value: rank r gets element r of the root's array, which has one element per rank. The arguments of other ranks
// only give the type. Blocking calls only.
//
//   task mine = tutti::scatter(comm, tasks, 0);
template <class Algorithm = automatic, class Comm, class In>
  requires detail::host_ranks<Comm>
[[nodiscard("without an output array, the element of this rank is returned")]] auto scatter(
    Comm&& comm, In&& all, int root = 0, options const& o = {},
    std::source_location where = std::source_location::current()) {
  if constexpr (detail::accepts_array_by_value<Comm, In>()) {
    using T = detail::element_in<In>;
    static_assert(std::default_initializable<T>,
                  "the result is default-constructed and then overwritten; give the element type a default "
                  "constructor, or pass an output array");
    T out{};
    detail::perform_on_arrays<collective::scatter, Algorithm>(comm, detail::inputs(all), std::span(&out, 1),
                                                              detail::moving{}, root, o, where);
    return out;
  }
}
template <class Algorithm = automatic, class Comm, class In>
  requires detail::host_ranks<Comm>
[[nodiscard("without an output array, the element of this rank is returned")]] auto scatter(
    Comm&& comm, In&& all, options const& o, std::source_location where = std::source_location::current()) {
  return scatter<Algorithm>(comm, std::forward<In>(all), 0, o, where);
}

// Blocks of different sizes: only the root uses `in`, `counts` (elements of each rank's block) and `offsets` (of each
// block in `in`, or none). Throws mismatch if a rank's `out` has another size than the root sends. All else as scatter.
//
//   tutti::scatter_v(comm, all, counts, mine, {}, 0);
template <class Algorithm = automatic, class Comm, detail::array_argument Out,
          class In = std::span<detail::element_in<Out> const>>
  requires detail::host_ranks<Comm>
auto scatter_v(Comm&& comm, In&& in, detail::count_list<collective::scatter> const& counts, Out&& out,
               detail::count_list<collective::scatter> const& offsets = {}, int root = 0, options const& o = {},
               std::source_location where = std::source_location::current()) {
  if constexpr (detail::accepts<Comm, In, Out>())
    return detail::perform_on_blocks<collective::scatter, Algorithm>(
        comm, detail::inputs(in), {counts, offsets}, detail::elements(out), {}, detail::moving{}, root, o, where);
}
template <class Algorithm = automatic, class Comm, detail::array_argument Out,
          class In = std::span<detail::element_in<Out> const>>
  requires detail::host_ranks<Comm>
auto scatter_v(Comm&& comm, In&& in, detail::count_list<collective::scatter> const& counts, Out&& out,
               detail::count_list<collective::scatter> const& offsets, options const& o,
               std::source_location where = std::source_location::current()) {
  return scatter_v<Algorithm>(comm, std::forward<In>(in), counts, std::forward<Out>(out), offsets, 0, o, where);
}

// By value, for ranks that do not know the sizes of their blocks: returns this rank's block. Only the root uses `in` and `counts`;
// the others pass an array of the same type, and {}. Also sends a number to each rank, by a scatter; a rank without memory for its
// block throws system, and the others revoked. Blocking calls only.
//
//   std::vector<task> const mine = tutti::scatter_v(comm, tasks, counts, 0);
template <class Algorithm = automatic, class Comm, class In>
  requires detail::host_ranks<Comm>
[[nodiscard("without an output, the result is returned")]] auto scatter_v(
    Comm&& comm, In&& in, detail::count_list<collective::scatter> const& counts, int root = 0, options const& o = {},
    std::source_location where = std::source_location::current()) {
  if constexpr (detail::accepts_array_by_value<Comm, In>()) {
    using T = detail::element_in<In>;
    auto const all = detail::inputs(in);
    if (comm.rank() == root) detail::expect_blocks(comm, collective::scatter, counts, all, where);
    std::size_t const mine = scatter(comm, std::span<std::size_t const>(counts), root, {.timeout = o.timeout}, where);
    return detail::filled_by_others<T>(comm, mine, where, [&](std::span<T> out) {
      detail::perform_on_blocks<collective::scatter, Algorithm>(comm, all, {counts}, out, {}, detail::moving{}, root, o,
                                                                where);
    });
  }
}
template <class Algorithm = automatic, class Comm, class In>
  requires detail::host_ranks<Comm>
[[nodiscard("without an output, the result is returned")]] auto scatter_v(
    Comm&& comm, In&& in, detail::count_list<collective::scatter> const& counts, options const& o,
    std::source_location where = std::source_location::current()) {
  return scatter_v<Algorithm>(comm, std::forward<In>(in), counts, 0, o, where);
}

}  // namespace tutti
