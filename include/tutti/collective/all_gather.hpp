// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// all_gather and all_gather_v: every rank gets the blocks of all ranks, in rank order.
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

// Concatenates the blocks of all ranks on every rank: block q of `out` is rank q's `in`.
//
// Each rank passes    `in` of n elements, n equal on all ranks, and `out` of n * size
// In place            `in` is this rank's block of `out`. Otherwise they must not overlap.
// Throws              error: bad_argument before any communication; mismatch, timeout, rank_lost, rank_left
// Cost                p ranks, blocks of n bytes; every rank sends (p-1) n bytes: one_shot in 1 hop of p-1 messages,
//                     bruck in log2 p hops of one message each, ring and pairwise in p-1 hops
// Source              MPI-4.1, 6.7
//
//   std::vector<float> all(mine.size() * comm.size());
//   tutti::all_gather(comm, mine, all);
template <class Algorithm = automatic, class Comm, class In, detail::array_argument Out>
  requires detail::host_ranks<Comm>
auto all_gather(Comm&& comm, In&& in, Out&& out, options const& o = {},
                std::source_location where = std::source_location::current()) {
  if constexpr (detail::accepts<Comm, In, Out>())
    return detail::perform_on_arrays<collective::all_gather, Algorithm>(comm, detail::inputs(in), detail::elements(out),
                                                                        detail::moving{}, 0, o, where);
}

// By value: returns the numbers or structs of all ranks, one per rank, or the blocks of all ranks. Blocking calls only.
//
//   std::vector<row> all = tutti::all_gather(comm, mine);
template <class Algorithm = automatic, class Comm, class In>
  requires detail::host_ranks<Comm>
[[nodiscard("without an output, the result is returned")]] auto all_gather(
    Comm&& comm, In&& mine, options const& o = {}, std::source_location where = std::source_location::current()) {
  if constexpr (detail::accepts_by_value<Comm, In>()) {
    using T = detail::element_in<In>;
    auto const in = detail::inputs(mine);
    comm.expect_usable(where);  // before its size is used
    return detail::filled<T>(in.size() * static_cast<std::size_t>(comm.size()), [&](std::span<T> out) {
      detail::perform_on_arrays<collective::all_gather, Algorithm>(comm, in, out, detail::moving{}, 0, o, where);
    });
  }
}

// Blocks of different sizes: every rank passes the same `counts` (elements of each rank's block); `in` has counts[rank]
// elements. Block q is placed at element offsets[q] of `out`, or after block q-1 without offsets. All else as
// all_gather.
//
//   tutti::all_gather_v(comm, mine, all, counts);
template <class Algorithm = automatic, class Comm, class In, detail::array_argument Out>
  requires detail::host_ranks<Comm>
auto all_gather_v(Comm&& comm, In&& in, Out&& out, detail::count_list<collective::all_gather> const& counts,
                  detail::count_list<collective::all_gather> const& offsets = {}, options const& o = {},
                  std::source_location where = std::source_location::current()) {
  if constexpr (detail::accepts<Comm, In, Out>())
    return detail::perform_on_blocks<collective::all_gather, Algorithm>(
        comm, detail::inputs(in), {}, detail::elements(out), {counts, offsets}, detail::moving{}, 0, o, where);
}

// By value, for ranks that do not know each other's sizes: `mine` has any number of elements. Also sends a number per rank, by an
// all_gather; a rank without memory for the result throws system, and the others revoked. Blocking calls only.
//
//   auto const [everything, counts] = tutti::all_gather_v(comm, mine);
template <class Algorithm = automatic, class Comm, class In>
  requires detail::host_ranks<Comm>
[[nodiscard("without an output, the result is returned")]] auto all_gather_v(
    Comm&& comm, In&& mine, options const& o = {}, std::source_location where = std::source_location::current()) {
  if constexpr (detail::accepts_array_by_value<Comm, In>()) {
    auto const in = detail::inputs(mine);
    auto counts = all_gather(comm, in.size(), {.timeout = o.timeout}, where);
    return detail::received_blocks<detail::element_in<In>>(
        comm, std::move(counts), where, [&](auto out, auto const& sizes) {
          detail::perform_on_blocks<collective::all_gather, Algorithm>(comm, in, {}, out, {sizes}, detail::moving{}, 0,
                                                                       o, where);
        });
  }
}

}  // namespace tutti
