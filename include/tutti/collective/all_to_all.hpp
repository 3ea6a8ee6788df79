// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// all_to_all and all_to_all_v: every rank sends a block to every rank.
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

// Every rank sends a block to every rank: block q of rank r's `out` is block r of rank q's `in`.
//
// Each rank passes    `in` and `out` of n * size elements, n equal on all ranks
// In place            one array for both. Otherwise they must not overlap.
// Throws              error: bad_argument before any communication; mismatch, timeout, rank_lost, rank_left
// Cost                p ranks, blocks of n bytes: one_shot 1 hop and pairwise p-1 hops, each with p-1 messages and
//                     (p-1) n bytes per rank; bruck log2 p hops and messages, (n p/2) log2 p bytes; two_level, on nodes
//                     of k ranks, p/k-1 messages of k n bytes between nodes per rank
// Source              MPI-4.1, 6.8
//
//   tutti::all_to_all(comm, outgoing, incoming);
template <class Algorithm = automatic, class Comm, class In, detail::array_argument Out>
  requires detail::host_ranks<Comm>
auto all_to_all(Comm&& comm, In&& in, Out&& out, options const& o = {},
                std::source_location where = std::source_location::current()) {
  if constexpr (detail::accepts<Comm, In, Out>())
    return detail::perform_on_arrays<collective::all_to_all, Algorithm>(comm, detail::inputs(in), detail::elements(out),
                                                                        detail::moving{}, 0, o, where);
}

// In place: the received blocks replace those that were sent.
template <class Algorithm = automatic, class Comm, detail::in_place_argument InOut>
  requires detail::host_ranks<Comm>
auto all_to_all(Comm&& comm, InOut&& data, options const& o = {},
                std::source_location where = std::source_location::current()) {
  if constexpr (detail::accepts_in_place<Comm, InOut>())
    return detail::perform_on_arrays<collective::all_to_all, Algorithm>(
        comm, detail::inputs(data), detail::elements(data), detail::moving{}, 0, o, where);
}

// By value: returns the received blocks, for an array that is const or temporary. Blocking calls only.
//
//   std::vector<int> const counts_for_me = tutti::all_to_all(comm, std::as_const(counts_to_send));
template <class Algorithm = automatic, class Comm, class In>
  requires detail::host_ranks<Comm> && (!detail::in_place_argument<In>)
[[nodiscard("without an output, the result is returned")]] auto all_to_all(
    Comm&& comm, In&& data, options const& o = {}, std::source_location where = std::source_location::current()) {
  if constexpr (detail::accepts_array_by_value<Comm, In>())
    return detail::changed(std::forward<In>(data), [&]<class T>(std::span<T> all) {
      detail::perform_on_arrays<collective::all_to_all, Algorithm>(comm, std::span<T const>(all), all, detail::moving{},
                                                                   0, o, where);
    });
}

// Blocks of different sizes: send_counts[q] elements go to rank q, and receive_counts[q] come from it, which must equal
// what rank q sends (else mismatch). Blocks are adjacent unless offsets are given. Not in place. All else as
// all_to_all.
//
//   tutti::all_to_all_v(comm, outgoing, send_counts, incoming, receive_counts);
template <class Algorithm = automatic, class Comm, class In, detail::array_argument Out>
  requires detail::host_ranks<Comm>
auto all_to_all_v(Comm&& comm, In&& in, detail::count_list<collective::all_to_all> const& send_counts, Out&& out,
                  detail::count_list<collective::all_to_all> const& receive_counts,
                  detail::count_list<collective::all_to_all> const& send_offsets = {},
                  detail::count_list<collective::all_to_all> const& receive_offsets = {}, options const& o = {},
                  std::source_location where = std::source_location::current()) {
  if constexpr (detail::accepts<Comm, In, Out>())
    return detail::perform_on_blocks<collective::all_to_all, Algorithm>(
        comm, detail::inputs(in), {send_counts, send_offsets}, detail::elements(out), {receive_counts, receive_offsets},
        detail::moving{}, 0, o, where);
}

// By value, for ranks that do not know what they will receive: returns the received blocks and their sizes. Also sends a number to
// each rank, by an all_to_all; a rank without memory for the result throws system, and the others revoked. Blocking calls only.
//
//   auto const [incoming, receive_counts] = tutti::all_to_all_v(comm, outgoing, send_counts);
template <class Algorithm = automatic, class Comm, class In>
  requires detail::host_ranks<Comm>
[[nodiscard("without an output, the result is returned")]] auto all_to_all_v(
    Comm&& comm, In&& outgoing, detail::count_list<collective::all_to_all> const& send_counts, options const& o = {},
    std::source_location where = std::source_location::current()) {
  if constexpr (detail::accepts_array_by_value<Comm, In>()) {
    auto const in = detail::inputs(outgoing);
    detail::expect_blocks(comm, collective::all_to_all, send_counts, in, where);
    auto counts = all_to_all(comm, std::span<std::size_t const>(send_counts), {.timeout = o.timeout}, where);
    return detail::received_blocks<detail::element_in<In>>(
        comm, std::move(counts), where, [&](auto out, auto const& sizes) {
          detail::perform_on_blocks<collective::all_to_all, Algorithm>(comm, in, {send_counts}, out, {sizes},
                                                                       detail::moving{}, 0, o, where);
        });
  }
}

}  // namespace tutti
