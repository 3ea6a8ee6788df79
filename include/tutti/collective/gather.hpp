// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// gather and gather_v: the root gets the blocks of all ranks, in rank order.
#pragma once

#include <cstddef>
#include <source_location>
#include <span>
#include <utility>

#include "tutti/call/accepted.hpp"
#include "tutti/call/arrays.hpp"
#include "tutti/call/elements.hpp"
#include "tutti/collective/received_blocks.hpp"

namespace tutti {

// Concatenates the blocks of all ranks at the root: block q of `out` is rank q's `in`.
//
// Each rank passes    `in` of n elements, n equal on all ranks; the root passes `out` of n * size, which no other rank
//                     touches: others may pass {}
// In place            the root's `in` is its block of `out`. Otherwise they must not overlap.
// Throws              error: bad_argument before any communication; mismatch, timeout, rank_lost, rank_left
// Cost                p ranks, blocks of n bytes; the root receives (p-1) n bytes: one_shot in 1 hop of p-1 messages,
//                     binomial_tree in log2 p hops of one message each
// Source              MPI-4.1, 6.5
//
//   tutti::gather(comm, mine, all, 0);
template <class Algorithm = automatic, class Comm, class In,
          detail::array_argument Out = std::span<detail::element_in<In>>>
  requires detail::host_ranks<Comm>
auto gather(Comm&& comm, In&& in, Out&& out, int root = 0, options const& o = {},
            std::source_location where = std::source_location::current()) {
  if constexpr (detail::accepts<Comm, In, Out>())
    return detail::perform_on_arrays<collective::gather, Algorithm>(comm, detail::inputs(in), detail::elements(out),
                                                                    detail::moving{}, root, o, where);
}
template <class Algorithm = automatic, class Comm, class In,
          detail::array_argument Out = std::span<detail::element_in<In>>>
  requires detail::host_ranks<Comm>
auto gather(Comm&& comm, In&& in, Out&& out, options const& o,
            std::source_location where = std::source_location::current()) {
  return gather<Algorithm>(comm, std::forward<In>(in), std::forward<Out>(out), 0, o, where);
}

// By value: the root gets the numbers or structs of all ranks, one per rank, or the blocks of all ranks; the others get
// an empty std::vector. Blocking calls only.
//
//   std::vector<double> const losses = tutti::gather(comm, loss, 0);
template <class Algorithm = automatic, class Comm, class In>
  requires detail::host_ranks<Comm>
[[nodiscard("without an output, the result is returned")]] auto gather(
    Comm&& comm, In&& mine, detail::given_root root = 0, options const& o = {},
    detail::call_site where = std::source_location::current()) {
  if constexpr (detail::accepts_by_value<Comm, In>()) {
    using T = detail::element_in<In>;
    auto const in = detail::inputs(mine);
    std::size_t const all = comm.rank() == root ? in.size() * static_cast<std::size_t>(comm.size()) : 0;
    return detail::filled<T>(all, [&](std::span<T> out) {
      detail::perform_on_arrays<collective::gather, Algorithm>(comm, in, out, detail::moving{}, root, o, where);
    });
  }
}
template <class Algorithm = automatic, class Comm, class In>
  requires detail::host_ranks<Comm>
[[nodiscard("without an output, the result is returned")]] auto gather(
    Comm&& comm, In&& mine, options const& o, detail::call_site where = std::source_location::current()) {
  return gather<Algorithm>(comm, std::forward<In>(mine), 0, o, where);
}

// Blocks of different sizes: only the root uses `out`, `counts` (elements of each rank's block) and `offsets` (of each
// block in `out`, or none). Throws mismatch if a rank's block has another size than the root expects. All else as
// gather.
//
//   tutti::gather_v(comm, mine, all, counts, {}, 0);
template <class Algorithm = automatic, class Comm, class In,
          detail::array_argument Out = std::span<detail::element_in<In>>>
  requires detail::host_ranks<Comm>
auto gather_v(Comm&& comm, In&& in, Out&& out, detail::count_list<collective::gather> const& counts,
              detail::count_list<collective::gather> const& offsets = {}, int root = 0, options const& o = {},
              std::source_location where = std::source_location::current()) {
  if constexpr (detail::accepts<Comm, In, Out>())
    return detail::perform_on_blocks<collective::gather, Algorithm>(
        comm, detail::inputs(in), {}, detail::elements(out), {counts, offsets}, detail::moving{}, root, o, where);
}
template <class Algorithm = automatic, class Comm, class In,
          detail::array_argument Out = std::span<detail::element_in<In>>>
  requires detail::host_ranks<Comm>
auto gather_v(Comm&& comm, In&& in, Out&& out, detail::count_list<collective::gather> const& counts,
              detail::count_list<collective::gather> const& offsets, options const& o,
              std::source_location where = std::source_location::current()) {
  return gather_v<Algorithm>(comm, std::forward<In>(in), std::forward<Out>(out), counts, offsets, 0, o, where);
}

// By value, for a root that does not know the sizes: `mine` has any number of elements, and ranks other than the root get nothing.
// Also sends a number per rank, by a gather; a root without memory for the result throws system, and the others revoked. Blocking
// calls only.
//
//   auto const [everything, counts] = tutti::gather_v(comm, mine, 0);
template <class Algorithm = automatic, class Comm, class In>
  requires detail::host_ranks<Comm>
[[nodiscard("without an output, the result is returned")]] auto gather_v(
    Comm&& comm, In&& mine, detail::given_root root = 0, options const& o = {},
    detail::call_site where = std::source_location::current()) {
  if constexpr (detail::accepts_array_by_value<Comm, In>()) {
    auto const in = detail::inputs(mine);
    auto counts = gather(comm, in.size(), root, {.timeout = o.timeout}, where);
    return detail::received_blocks<detail::element_in<In>>(
        comm, std::move(counts), where, [&](auto out, auto const& sizes) {
          detail::perform_on_blocks<collective::gather, Algorithm>(comm, in, {}, out, {sizes}, detail::moving{}, root,
                                                                   o, where);
        });
  }
}
template <class Algorithm = automatic, class Comm, class In>
  requires detail::host_ranks<Comm>
[[nodiscard("without an output, the result is returned")]] auto gather_v(
    Comm&& comm, In&& mine, options const& o, detail::call_site where = std::source_location::current()) {
  return gather_v<Algorithm>(comm, std::forward<In>(mine), 0, o, where);
}

}  // namespace tutti
