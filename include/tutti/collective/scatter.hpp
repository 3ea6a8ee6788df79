// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// scatter and scatter_v: every rank gets its block of the root's array.
#pragma once

#include "tutti/started/movement.hpp"

namespace tutti {

// Every rank passes `out` of n elements, n equal on all ranks; the root passes `in` of n * size, the others may pass
// anything, e.g. an empty span. `out` is block r of the root's `in`. In place: the root's `out` is its block of `in`.
// Throws error: bad_argument, mismatch, timeout, rank_lost, rank_left. See MPI-4.1, 6.6.
//
//   tutti::scatter(comm, all, mine, 0);
template <class Algorithm = automatic, communicating Comm, buffer In, mutable_buffer Out>
detail::returned_by<Comm> scatter(Comm&& comm, In const& in, Out&& out, int root = 0, options const& o = {},
                                  std::source_location where = std::source_location::current()) {
  using T = value_of<In>;
  static_assert(std::is_same_v<T, value_of<Out>>, "input and output of scatter have different element types");
  std::size_t const count = std::ranges::size(out), bytes = count * sizeof(T),
                    ranks = static_cast<std::size_t>(comm.size());
  std::byte const* const from = comm.rank() == root ? detail::bytes_of(in) : nullptr;
  std::byte* const to = detail::writable_bytes_of(out);
  bool const in_place = from != nullptr && to == from + static_cast<std::size_t>(root) * bytes;
  detail::expect_root(comm, root, where);
  if (comm.rank() == root) {
    detail::expect_size(comm, "the root's input of scatter", std::ranges::size(in), count * ranks, where);
    detail::expect_apart(comm.rank(), from, bytes * ranks, to, bytes, in_place ? to : nullptr, where);
  }
  if (comm.size() == 1) return detail::call_alone(comm, [=] { detail::move_alone(from, to, bytes); });
  return detail::move_blocks<Algorithm, collective::scatter, T>(
      comm, detail::movement_request<collective::scatter, Algorithm, T>(o, count, root), from, to, in_place, o, where);
}

// Blocks of their own sizes: `in`, `counts` (elements of each rank's block) and `offsets` (of each block in `in`, or none)
// matter at the root alone. A rank whose `out` has another size than the root sends makes the call fail (mismatch).
//
//   tutti::scatter_v(comm, all, counts, mine, {}, 0);
template <class Algorithm = automatic, communicating Comm, buffer In, mutable_buffer Out>
detail::returned_by<Comm> scatter_v(Comm&& comm, In const& in, std::span<std::size_t const> counts, Out&& out,
                                    std::span<std::size_t const> offsets = {}, int root = 0, options const& o = {},
                                    std::source_location where = std::source_location::current()) {
  using T = value_of<In>;
  static_assert(std::is_same_v<T, value_of<Out>>, "input and output of scatter_v have different element types");
  detail::expect_root(comm, root, where);
  std::size_t const bytes = std::ranges::size(out) * sizeof(T);
  detail::layout const alone = detail::layout::blocks(bytes, comm.size());
  std::byte* const to = detail::writable_bytes_of(out);
  detail::surfaces<std::byte> memory{.input = {}, .output = {to, alone.only(comm.rank())}, .scratch = {nullptr, alone}};
  if (comm.rank() == root) {
    detail::layout const blocks =
        detail::ragged_layout(comm, 0, "scatter_v's", counts, offsets, std::ranges::size(in), sizeof(T), where);
    detail::expect_size(comm, "the root's output of scatter_v", std::ranges::size(out),
                        counts[static_cast<std::size_t>(root)], where);
    std::byte const* const from = detail::bytes_of(in);
    std::byte const* const own = from + blocks.at(0, root).begin;
    memory.in_place = own == to;
    memory.input = {from, blocks};
    detail::expect_apart(root, from, blocks.end(), to, bytes, memory.in_place ? to : nullptr, where);
    if (comm.size() == 1) return detail::call_alone(comm, [=] { detail::move_alone(own, to, bytes); });
  }
  return detail::move_ragged<Algorithm, collective::scatter, T>(
      comm, detail::ragged(detail::movement_request<collective::scatter, Algorithm, T>(o, 0, root)), memory, o, where);
}

}  // namespace tutti
