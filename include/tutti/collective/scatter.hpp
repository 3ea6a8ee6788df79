// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// scatter and scatter_v: every rank gets its block of the root's array.
#pragma once

#include <concepts>
#include <cstddef>
#include <source_location>
#include <span>

#include "tutti/call/accepted.hpp"
#include "tutti/call/movement.hpp"

namespace tutti {
namespace detail {

template <class Algorithm, class Comm, class T>
returned_by<Comm> scatter_arrays(Comm& comm, std::span<T const> in, std::span<T> out, int root, options const& o,
                                 std::source_location where) {
  std::size_t const count = std::ranges::size(out), bytes = count * sizeof(T),
                    ranks = static_cast<std::size_t>(comm.size());
  std::byte const* const from = comm.rank() == root ? bytes_of(in) : nullptr;
  std::byte* const to = writable_bytes_of(out);
  bool const in_place = from != nullptr && to == from + static_cast<std::size_t>(root) * bytes;
  expect_root(comm, root, where);
  if (comm.rank() == root) {
    expect_size(comm, "the root's input of scatter", std::ranges::size(in), count * ranks, where);
    expect_apart(comm.rank(), from, bytes * ranks, to, bytes, in_place ? to : nullptr, where);
  }
  return move<collective::scatter, Algorithm, T>(comm, count, root, block_memory<std::byte>{from, to, in_place}, o,
                                                 where);
}

template <class Algorithm, class Comm, class T>
returned_by<Comm> scatter_v_arrays(Comm& comm, std::span<T const> in, std::span<T> out,
                                   std::span<std::size_t const> counts, std::span<std::size_t const> offsets, int root,
                                   options const& o, std::source_location where) {
  expect_root(comm, root, where);
  std::size_t const bytes = std::ranges::size(out) * sizeof(T);
  layout const alone = layout::blocks(bytes, comm.size());
  std::byte* const to = writable_bytes_of(out);
  ragged_memory<std::byte> memory{nullptr, to, false, {}, alone.only(comm.rank()), alone, lists_for(comm)};
  if (comm.rank() == root) {
    layout const blocks = ragged_layout(comm, memory.lists.make_room(2, comm.size()), "scatter_v's", counts, offsets,
                                        std::ranges::size(in), sizeof(T), where);
    expect_size(comm, "the root's output of scatter_v", std::ranges::size(out), counts[static_cast<std::size_t>(root)],
                where);
    std::byte const* const from = bytes_of(in);
    memory.in_place = from + blocks.at(0, root).begin == to;
    memory.in = from, memory.given = blocks;
    expect_apart(root, from, blocks.end(), to, bytes, memory.in_place ? to : nullptr, where);
  }
  return move_ragged<collective::scatter, Algorithm, T>(comm, root, {}, std::move(memory), o, where);
}

}  // namespace detail

// Distributes the root's array: `out` of rank r is block r of the root's `in`.
//
// Each rank passes    `out` of n elements, n equal on all ranks; the root passes `in` of n * size, which no other rank
//                     reads: others may pass an empty span
// In place            the root's `out` is its block of `in`. Otherwise they must not overlap.
// Throws              error: bad_argument before any communication; mismatch, timeout, rank_lost, rank_left
// Cost                p ranks, blocks of n bytes; the root sends (p-1) n bytes: one_shot in 1 hop of p-1 messages,
//                     binomial_tree in log2 p hops of one message each
// Source              MPI-4.1, 6.6
//
//   tutti::scatter(comm, all, mine, 0);
template <class Algorithm = automatic, class Comm, class In, detail::array_argument Out>
  requires detail::host_ranks<Comm>
auto scatter(Comm&& comm, In&& in, Out&& out, int root = 0, options const& o = {},
             std::source_location where = std::source_location::current()) {
  if constexpr (detail::accepts<Comm, In, Out>())
    return detail::scatter_arrays<Algorithm>(comm, detail::inputs(in), detail::elements(out), root, o, where);
}

// By value: rank r gets element r of the root's array, which has one element per rank. The arguments of other ranks
// only give the type. Blocking calls only.
//
//   task mine = tutti::scatter(comm, tasks, 0);
template <class Algorithm = automatic, class Comm, class In>
  requires detail::host_ranks<Comm>
[[nodiscard]] auto scatter(Comm&& comm, In&& all, int root = 0, options const& o = {},
                           std::source_location where = std::source_location::current()) {
  if constexpr (detail::accepts_array_by_value<Comm, In>()) {
    using T = detail::element_in<In>;
    static_assert(
        std::default_initializable<T>,
        "the result is made by default and then written; give the element type a default constructor, or pass an "
        "output array");
    T out{};
    detail::scatter_arrays<Algorithm>(comm, detail::inputs(all), std::span(&out, 1), root, o, where);
    return out;
  }
}

// Blocks of different sizes: only the root uses `in`, `counts` (elements of each rank's block) and `offsets` (of each
// block in `in`, or none). Throws mismatch if a rank's `out` has another size than the root sends. All else as scatter.
//
//   tutti::scatter_v(comm, all, counts, mine, {}, 0);
template <class Algorithm = automatic, class Comm, class In, class Out>
  requires detail::host_ranks<Comm>
auto scatter_v(Comm&& comm, In&& in, detail::count_list const& counts, Out&& out,
               detail::count_list const& offsets = {}, int root = 0, options const& o = {},
               std::source_location where = std::source_location::current()) {
  if constexpr (detail::accepts<Comm, In, Out>())
    return detail::scatter_v_arrays<Algorithm>(comm, detail::inputs(in), detail::elements(out), counts, offsets, root,
                                               o, where);
}

}  // namespace tutti
