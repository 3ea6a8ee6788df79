// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// all_to_all and all_to_all_v: every rank sends a block to every rank.
#pragma once

#include <cstddef>
#include <source_location>
#include <span>
#include <utility>
#include <vector>

#include "tutti/call/accepted.hpp"
#include "tutti/call/movement.hpp"

namespace tutti {
namespace detail {

template <class Algorithm, class Comm, class T>
returned_by<Comm> all_to_all_arrays(Comm& comm, std::span<T const> in, std::span<T> out, options const& o,
                                    std::source_location where) {
  std::size_t const count = std::ranges::size(in), ranks = static_cast<std::size_t>(comm.size());
  std::byte const* const from = bytes_of(in);
  std::byte* const to = writable_bytes_of(out);
  if (count % ranks != 0)
    refuse(comm.rank(),
           join({"the input of all_to_all has ", count, " elements, which ", ranks, " ranks cannot share equally"}),
           "use a multiple of the number of ranks, or all_to_all_v", where);
  expect_size(comm, "the output of all_to_all", std::ranges::size(out), count, where);
  expect_apart(comm.rank(), from, count * sizeof(T), to, count * sizeof(T), from, where);
  return move<collective::all_to_all, Algorithm, T>(comm, count / ranks, 0,
                                                    block_memory<std::byte>{from, to, from == to}, o, where);
}

template <class Algorithm, class Comm, class T>
returned_by<Comm> all_to_all_v_arrays(Comm& comm, std::span<T const> in, std::span<T> out,
                                      std::span<std::size_t const> send_counts,
                                      std::span<std::size_t const> receive_counts,
                                      std::span<std::size_t const> send_offsets,
                                      std::span<std::size_t const> receive_offsets, options const& o,
                                      std::source_location where) {
  auto lists = lists_for(comm);
  std::size_t* const room = lists.make_room(4, comm.size());
  layout const sent = ragged_layout(comm, room, "all_to_all_v's send", send_counts, send_offsets, std::ranges::size(in),
                                    sizeof(T), where);
  layout const received =
      ragged_layout(comm, room + 2 * static_cast<std::size_t>(comm.size()), "all_to_all_v's receive", receive_counts,
                    receive_offsets, std::ranges::size(out), sizeof(T), where);
  std::byte const* const from = bytes_of(in);
  std::byte* const to = writable_bytes_of(out);
  expect_apart(comm.rank(), from, sent.end(), to, received.end(), nullptr, where);
  auto const own = static_cast<std::size_t>(comm.rank());
  expect_size(comm, "this rank's block for itself in all_to_all_v", receive_counts[own], send_counts[own], where);
  return move_ragged<collective::all_to_all, Algorithm, T>(
      comm, 0, {}, {from, to, false, sent, received, received, std::move(lists)}, o, where);
}

}  // namespace detail

// Every rank sends a block to every rank: block q of rank r's `out` is block r of rank q's `in`.
//
// Each rank passes    `in` and `out` of n * size elements, n equal on all ranks
// In place            one array for both. Otherwise they must not overlap.
// Throws              error: bad_argument before any communication; mismatch, timeout, rank_lost, rank_left
// Cost                p ranks, blocks of n bytes: one_shot 1 hop and pairwise p-1 hops, each with p-1 messages and
//                     (p-1) n bytes per rank; bruck log2 p hops and messages, (n p/2) log2 p bytes
// Source              MPI-4.1, 6.8
//
//   tutti::all_to_all(comm, outgoing, incoming);
template <class Algorithm = automatic, class Comm, class In, detail::array_argument Out>
  requires detail::host_ranks<Comm>
auto all_to_all(Comm&& comm, In&& in, Out&& out, options const& o = {},
                std::source_location where = std::source_location::current()) {
  if constexpr (detail::accepts<Comm, In, Out>())
    return detail::all_to_all_arrays<Algorithm>(comm, detail::inputs(in), detail::elements(out), o, where);
}

// In place: the received blocks replace those that were sent.
template <class Algorithm = automatic, class Comm, detail::in_place_argument InOut>
  requires detail::host_ranks<Comm>
auto all_to_all(Comm&& comm, InOut&& data, options const& o = {},
                std::source_location where = std::source_location::current()) {
  if constexpr (detail::accepts_in_place<Comm, InOut>())
    return detail::all_to_all_arrays<Algorithm>(comm, detail::inputs(data), detail::elements(data), o, where);
}

// By value: returns the received blocks, for an array that is const or temporary. Blocking calls only.
//
//   std::vector<int> const counts_for_me = tutti::all_to_all(comm, std::as_const(counts_to_send));
template <class Algorithm = automatic, class Comm, class In>
  requires detail::host_ranks<Comm> && (!detail::in_place_argument<In>)
[[nodiscard]] auto all_to_all(Comm&& comm, In&& data, options const& o = {},
                              std::source_location where = std::source_location::current()) {
  if constexpr (detail::accepts_array_by_value<Comm, In>())
    return detail::changed(std::forward<In>(data), [&]<class T>(std::span<T> all) {
      detail::all_to_all_arrays<Algorithm>(comm, std::span<T const>(all), all, o, where);
    });
}

// Blocks of different sizes: send_counts[q] elements go to rank q, and receive_counts[q] come from it, which must equal
// what rank q sends (else mismatch). Blocks are adjacent unless offsets are given. Not in place. All else as
// all_to_all.
//
//   tutti::all_to_all_v(comm, outgoing, send_counts, incoming, receive_counts);
template <class Algorithm = automatic, class Comm, class In, class Out>
  requires detail::host_ranks<Comm>
auto all_to_all_v(Comm&& comm, In&& in, detail::count_list const& send_counts, Out&& out,
                  detail::count_list const& receive_counts, detail::count_list const& send_offsets = {},
                  detail::count_list const& receive_offsets = {}, options const& o = {},
                  std::source_location where = std::source_location::current()) {
  if constexpr (detail::accepts<Comm, In, Out>())
    return detail::all_to_all_v_arrays<Algorithm>(comm, detail::inputs(in), detail::elements(out), send_counts,
                                                  receive_counts, send_offsets, receive_offsets, o, where);
}

}  // namespace tutti
