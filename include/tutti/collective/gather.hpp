// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// gather and gather_v: the root gets the blocks of all ranks, in rank order.
#pragma once

#include <cstddef>
#include <source_location>
#include <span>
#include <vector>

#include "tutti/call/accepted.hpp"
#include "tutti/call/movement.hpp"

namespace tutti {
namespace detail {

template <class Algorithm, class Comm, class T>
returned_by<Comm> gather_arrays(Comm& comm, std::span<T const> in, std::span<T> out, int root, options const& o,
                                std::source_location where) {
  std::size_t const count = std::ranges::size(in), bytes = count * sizeof(T),
                    ranks = static_cast<std::size_t>(comm.size());
  std::byte const* const from = bytes_of(in);
  std::byte* const to = comm.rank() == root ? writable_bytes_of(out) : nullptr;
  bool const in_place = to != nullptr && from == to + static_cast<std::size_t>(root) * bytes;
  expect_root(comm, root, where);
  if (comm.rank() == root) {
    expect_size(comm, "the root's output of gather", std::ranges::size(out), count * ranks, where);
    expect_apart(comm.rank(), from, bytes, to, bytes * ranks, in_place ? to : nullptr, where);
  }
  return move<collective::gather, Algorithm, T>(comm, count, root, block_memory<std::byte>{from, to, in_place}, o,
                                                where);
}

template <class Algorithm, class Comm, class T>
returned_by<Comm> gather_v_arrays(Comm& comm, std::span<T const> in, std::span<T> out,
                                  std::span<std::size_t const> counts, std::span<std::size_t const> offsets, int root,
                                  options const& o, std::source_location where) {
  expect_root(comm, root, where);
  std::size_t const bytes = std::ranges::size(in) * sizeof(T);
  layout const alone = layout::blocks(bytes, comm.size());
  ragged_memory<std::byte> memory{bytes_of(in), nullptr, false, alone.only(comm.rank()), {}, alone, lists_for(comm)};
  if (comm.rank() == root) {
    layout const blocks = ragged_layout(comm, memory.lists.make_room(2, comm.size()), "gather_v's", counts, offsets,
                                        std::ranges::size(out), sizeof(T), where);
    expect_size(comm, "the root's input of gather_v", std::ranges::size(in), counts[static_cast<std::size_t>(root)],
                where);
    std::byte* const to = writable_bytes_of(out);
    memory.in_place = memory.in == to + blocks.at(0, root).begin;
    memory.out = to, memory.got = blocks;
    expect_apart(root, memory.in, bytes, to, blocks.end(), memory.in_place ? to : nullptr, where);
  }
  return move_ragged<collective::gather, Algorithm, T>(comm, root, {}, std::move(memory), o, where);
}

}  // namespace detail

// Concatenates the blocks of all ranks at the root: block q of `out` is rank q's `in`.
//
// Each rank passes    `in` of n elements, n equal on all ranks; the root passes `out` of n * size, which no other rank
//                     touches: others may pass an empty span
// In place            the root's `in` is its block of `out`. Otherwise they must not overlap.
// Throws              error: bad_argument before any communication; mismatch, timeout, rank_lost, rank_left
// Cost                p ranks, blocks of n bytes; the root receives (p-1) n bytes: one_shot in 1 hop of p-1 messages,
//                     binomial_tree in log2 p hops of one message each
// Source              MPI-4.1, 6.5
//
//   tutti::gather(comm, mine, all, 0);
template <class Algorithm = automatic, class Comm, class In, detail::array_argument Out>
  requires detail::host_ranks<Comm>
auto gather(Comm&& comm, In&& in, Out&& out, int root = 0, options const& o = {},
            std::source_location where = std::source_location::current()) {
  if constexpr (detail::accepts<Comm, In, Out>())
    return detail::gather_arrays<Algorithm>(comm, detail::inputs(in), detail::elements(out), root, o, where);
}

// By value: the root gets the numbers or structs of all ranks, one per rank, or the blocks of all ranks; the others get
// an empty std::vector. Blocking calls only.
//
//   std::vector<double> const losses = tutti::gather(comm, loss, 0);
template <class Algorithm = automatic, class Comm, class In>
  requires detail::host_ranks<Comm>
[[nodiscard]] auto gather(Comm&& comm, In&& mine, int root = 0, options const& o = {},
                          std::source_location where = std::source_location::current()) {
  if constexpr (detail::accepts_by_value<Comm, In>()) {
    using T = detail::element_in<In>;
    auto const in = detail::inputs(mine);
    std::size_t const all = comm.rank() == root ? in.size() * static_cast<std::size_t>(comm.size()) : 0;
    return detail::filled<T>(
        all, [&](std::span<T> out) { detail::gather_arrays<Algorithm>(comm, in, out, root, o, where); });
  }
}

// Blocks of different sizes: only the root uses `out`, `counts` (elements of each rank's block) and `offsets` (of each
// block in `out`, or none). Throws mismatch if a rank's block has another size than the root expects. All else as
// gather.
//
//   tutti::gather_v(comm, mine, all, counts, {}, 0);
template <class Algorithm = automatic, class Comm, class In, class Out>
  requires detail::host_ranks<Comm>
auto gather_v(Comm&& comm, In&& in, Out&& out, detail::count_list const& counts, detail::count_list const& offsets = {},
              int root = 0, options const& o = {}, std::source_location where = std::source_location::current()) {
  if constexpr (detail::accepts<Comm, In, Out>())
    return detail::gather_v_arrays<Algorithm>(comm, detail::inputs(in), detail::elements(out), counts, offsets, root, o,
                                              where);
}

}  // namespace tutti
