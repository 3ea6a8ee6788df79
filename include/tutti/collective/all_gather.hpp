// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// all_gather and all_gather_v: every rank gets all ranks' blocks, in rank order.
#pragma once

#include "tutti/started/movement.hpp"

namespace tutti {
// Every rank passes `in` of n elements, n equal on all ranks, and `out` of n * size; block q of out is rank q's `in`.
// In place: `in` is this rank's block of `out`. Otherwise they must not overlap.
// Throws error: bad_argument, mismatch, timeout, rank_lost, rank_left. See MPI-4.1, 6.7.
//
//   std::vector<float> all(mine.size() * comm.size());
//   tutti::all_gather(comm, mine, all);
template <class Algorithm = automatic, communicating Comm, buffer In, mutable_buffer Out>
detail::returned_by<Comm> all_gather(Comm&& comm, In const& in, Out&& out, options const& o = {},
                                     std::source_location where = std::source_location::current()) {
  using T = value_of<In>;
  static_assert(std::is_same_v<T, value_of<Out>>, "input and output of all_gather have different element types");
  std::size_t const count = std::ranges::size(in), bytes = count * sizeof(T);
  std::byte const* const from = detail::bytes_of(in);
  std::byte* const to = detail::writable_bytes_of(out);
  std::byte const* const own = to + static_cast<std::size_t>(comm.rank()) * bytes;
  detail::expect_size(comm, "the output of all_gather", std::ranges::size(out),
                      count * static_cast<std::size_t>(comm.size()), where);
  detail::expect_apart(comm.rank(), from, bytes, to, bytes * static_cast<std::size_t>(comm.size()),
                       from == own ? to : nullptr, where);
  if (comm.size() == 1) return detail::call_alone(comm, [=] { detail::move_alone(from, to, bytes); });
  return detail::move_blocks<Algorithm, collective::all_gather, T>(
      comm, detail::movement_request<collective::all_gather, Algorithm, T>(o, count), from, to, from == own, o, where);
}

// Blocks of their own sizes: every rank passes the same `counts` (elements of each rank's block); `in` has counts[rank].
// Block q lands at element offsets[q] of `out`, or after block q-1 where no offsets are given.
//
//   tutti::all_gather_v(comm, mine, all, counts);
template <class Algorithm = automatic, communicating Comm, buffer In, mutable_buffer Out>
detail::returned_by<Comm> all_gather_v(Comm&& comm, In const& in, Out&& out, std::span<std::size_t const> counts,
                                       std::span<std::size_t const> offsets = {}, options const& o = {},
                                       std::source_location where = std::source_location::current()) {
  using T = value_of<In>;
  static_assert(std::is_same_v<T, value_of<Out>>, "input and output of all_gather_v have different element types");
  int const rank = comm.rank();
  detail::layout const blocks =
      detail::ragged_layout(comm, 0, "all_gather_v's", counts, offsets, std::ranges::size(out), sizeof(T), where);
  detail::expect_size(comm, "the input of all_gather_v", std::ranges::size(in), counts[static_cast<std::size_t>(rank)],
                      where);
  std::byte const* const from = detail::bytes_of(in);
  std::byte* const to = detail::writable_bytes_of(out);
  extent const mine = blocks.at(0, rank);
  bool const in_place = from == to + mine.begin;
  detail::expect_apart(rank, from, mine.count, to, blocks.end(), in_place ? to : nullptr, where);
  if (comm.size() == 1) return detail::call_alone(comm, [=] { detail::move_alone(from, to + mine.begin, mine.count); });
  return detail::move_ragged<Algorithm, collective::all_gather, T>(
      comm, detail::ragged(detail::movement_request<collective::all_gather, Algorithm, T>(o, 0), counts),
      {.input = {from, blocks.only(rank)}, .output = {to, blocks}, .scratch = {nullptr, blocks}, .in_place = in_place},
      o, where);
}

}  // namespace tutti
