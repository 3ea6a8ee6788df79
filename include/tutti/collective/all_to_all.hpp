// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// all_to_all and all_to_all_v: every rank sends a block to every rank.
#pragma once

#include "tutti/started/movement.hpp"

namespace tutti {

// Every rank passes `in` and `out` of n * size elements, n equal on all ranks; block q of out is block r of rank q's `in`.
// In place with one buffer; otherwise they must not overlap.
// Throws error: bad_argument, mismatch, timeout, rank_lost, rank_left. See MPI-4.1, 6.8.
//
//   tutti::all_to_all(comm, outgoing, incoming);
template <class Algorithm = automatic, communicating Comm, buffer In, mutable_buffer Out>
detail::returned_by<Comm> all_to_all(Comm&& comm, In const& in, Out&& out, options const& o = {},
                                     std::source_location where = std::source_location::current()) {
  using T = value_of<In>;
  static_assert(std::is_same_v<T, value_of<Out>>, "input and output of all_to_all have different element types");
  std::size_t const count = std::ranges::size(in), ranks = static_cast<std::size_t>(comm.size());
  std::byte const* const from = detail::bytes_of(in);
  std::byte* const to = detail::writable_bytes_of(out);
  if (count % ranks != 0)
    detail::refuse(comm.rank(),
                   detail::join({"the input of all_to_all has ", count, " elements, which ", ranks,
                                 " ranks cannot share equally"}),
                   "use a multiple of the number of ranks, or all_to_all_v", where);
  detail::expect_size(comm, "the output of all_to_all", std::ranges::size(out), count, where);
  detail::expect_apart(comm.rank(), from, count * sizeof(T), to, count * sizeof(T), from, where);
  if (comm.size() == 1) return detail::call_alone(comm, [=] { detail::move_alone(from, to, count * sizeof(T)); });
  return detail::move_blocks<Algorithm, collective::all_to_all, T>(
      comm, detail::movement_request<collective::all_to_all, Algorithm, T>(o, count / ranks), from, to, from == to, o,
      where);
}
template <class Algorithm = automatic, communicating Comm, mutable_buffer InOut>
detail::returned_by<Comm> all_to_all(Comm&& comm, InOut&& data, options const& o = {},
                                     std::source_location where = std::source_location::current()) {
  return all_to_all<Algorithm>(comm, data, data, o, where);
}

// Blocks of their own sizes: send_counts[q] elements go to rank q, receive_counts[q] come from it and must be what rank q
// sends (else mismatch). Blocks follow each other without gaps, unless offsets are given. Not in place.
//
//   tutti::all_to_all_v(comm, outgoing, send_counts, incoming, receive_counts);
template <class Algorithm = automatic, communicating Comm, buffer In, mutable_buffer Out>
detail::returned_by<Comm> all_to_all_v(Comm&& comm, In const& in, std::span<std::size_t const> send_counts, Out&& out,
                                       std::span<std::size_t const> receive_counts,
                                       std::span<std::size_t const> send_offsets = {},
                                       std::span<std::size_t const> receive_offsets = {}, options const& o = {},
                                       std::source_location where = std::source_location::current()) {
  using T = value_of<In>;
  static_assert(std::is_same_v<T, value_of<Out>>, "input and output of all_to_all_v have different element types");
  detail::layout const sent = detail::ragged_layout(comm, 0, "all_to_all_v's send", send_counts, send_offsets,
                                                    std::ranges::size(in), sizeof(T), where);
  detail::layout const received = detail::ragged_layout(comm, 1, "all_to_all_v's receive", receive_counts,
                                                        receive_offsets, std::ranges::size(out), sizeof(T), where);
  std::byte const* const from = detail::bytes_of(in);
  std::byte* const to = detail::writable_bytes_of(out);
  detail::expect_apart(comm.rank(), from, sent.end(), to, received.end(), nullptr, where);
  auto const own = static_cast<std::size_t>(comm.rank());
  detail::expect_size(comm, "this rank's block for itself in all_to_all_v", receive_counts[own], send_counts[own],
                      where);
  if (comm.size() == 1)
    return detail::call_alone(comm, [=] {
      detail::move_alone(from + sent.at(0, 0).begin, to + received.at(0, 0).begin, sent.at(0, 0).count);
    });
  return detail::move_ragged<Algorithm, collective::all_to_all, T>(
      comm, detail::ragged(detail::movement_request<collective::all_to_all, Algorithm, T>(o, 0)),
      {.input = {from, sent}, .output = {to, received}, .scratch = {nullptr, received}}, o, where);
}

}  // namespace tutti
