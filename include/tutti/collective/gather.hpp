// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// gather and gather_v: the root gets all ranks' blocks, in rank order.
#pragma once

#include "tutti/started/movement.hpp"

namespace tutti {

// Every rank passes `in` of n elements, n equal on all ranks; the root passes `out` of n * size, the others may pass
// anything, e.g. an empty span. Block q of out is rank q's `in`. In place: the root's `in` is its block of `out`.
// Throws error: bad_argument, mismatch, timeout, rank_lost, rank_left. See MPI-4.1, 6.5.
//
//   tutti::gather(comm, mine, all, 0);
template <class Algorithm = automatic, communicating Comm, buffer In, mutable_buffer Out>
detail::returned_by<Comm> gather(Comm&& comm, In const& in, Out&& out, int root = 0, options const& o = {},
                                 std::source_location where = std::source_location::current()) {
  using T = value_of<In>;
  static_assert(std::is_same_v<T, value_of<Out>>, "input and output of gather have different element types");
  std::size_t const count = std::ranges::size(in), bytes = count * sizeof(T),
                    ranks = static_cast<std::size_t>(comm.size());
  std::byte const* const from = detail::bytes_of(in);
  std::byte* const to = comm.rank() == root ? detail::writable_bytes_of(out) : nullptr;
  bool const in_place = to != nullptr && from == to + static_cast<std::size_t>(root) * bytes;
  detail::expect_root(comm, root, where);
  if (comm.rank() == root) {
    detail::expect_size(comm, "the root's output of gather", std::ranges::size(out), count * ranks, where);
    detail::expect_apart(comm.rank(), from, bytes, to, bytes * ranks, in_place ? to : nullptr, where);
  }
  if (comm.size() == 1) return detail::call_alone(comm, [=] { detail::move_alone(from, to, bytes); });
  return detail::move_blocks<Algorithm, collective::gather, T>(
      comm, detail::movement_request<collective::gather, Algorithm, T>(o, count, root), from, to, in_place, o, where);
}

// Blocks of their own sizes: `out`, `counts` (elements of each rank's block) and `offsets` (of each block in `out`, or none)
// matter at the root alone. A rank whose block has another size than the root expects makes the call fail (mismatch).
//
//   tutti::gather_v(comm, mine, all, counts, {}, 0);
template <class Algorithm = automatic, communicating Comm, buffer In, mutable_buffer Out>
detail::returned_by<Comm> gather_v(Comm&& comm, In const& in, Out&& out, std::span<std::size_t const> counts,
                                   std::span<std::size_t const> offsets = {}, int root = 0, options const& o = {},
                                   std::source_location where = std::source_location::current()) {
  using T = value_of<In>;
  static_assert(std::is_same_v<T, value_of<Out>>, "input and output of gather_v have different element types");
  detail::expect_root(comm, root, where);
  std::size_t const bytes = std::ranges::size(in) * sizeof(T);
  detail::layout const alone = detail::layout::blocks(bytes, comm.size());
  detail::surfaces<std::byte> memory{
      .input = {detail::bytes_of(in), alone.only(comm.rank())}, .output = {}, .scratch = {nullptr, alone}};
  if (comm.rank() == root) {
    detail::layout const blocks =
        detail::ragged_layout(comm, 0, "gather_v's", counts, offsets, std::ranges::size(out), sizeof(T), where);
    detail::expect_size(comm, "the root's input of gather_v", std::ranges::size(in),
                        counts[static_cast<std::size_t>(root)], where);
    std::byte* const to = detail::writable_bytes_of(out);
    std::byte* const own = to + blocks.at(0, root).begin;
    memory.in_place = memory.input.data == own;
    memory.output = {to, blocks};
    detail::expect_apart(root, memory.input.data, bytes, to, blocks.end(), memory.in_place ? to : nullptr, where);
    if (comm.size() == 1) return detail::call_alone(comm, [=] { detail::move_alone(memory.input.data, own, bytes); });
  }
  return detail::move_ragged<Algorithm, collective::gather, T>(
      comm, detail::ragged(detail::movement_request<collective::gather, Algorithm, T>(o, 0, root)), memory, o, where);
}

}  // namespace tutti
