// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Collectives that only move values, as bytes, and the blocks of _v forms.
#pragma once

#include <cstddef>
#include <cstdint>
#include <numeric>
#include <ranges>
#include <source_location>
#include <span>
#include <type_traits>
#include <utility>

#include "tutti/call/perform.hpp"

namespace tutti::detail {

template <class R>
std::byte const* bytes_of(R const& range) {
  return reinterpret_cast<std::byte const*>(std::ranges::data(range));
}
template <class R>
std::byte* writable_bytes_of(R& range) {
  return reinterpret_cast<std::byte*>(std::ranges::data(range));
}

// `count`: elements T of a block, or of the message.
template <collective C, class Algorithm, class T, class Comm, class Memory>
returned_by<Comm> move(Comm& comm, std::uint64_t count, int root, Memory const& memory, options const& o,
                       std::source_location where) {
  check_algorithm<Algorithm, C, void>(comm, o, where);
  movement<C, Algorithm, Memory> call{
      {request_of<C, Algorithm, T>(o, count, root), o.timeout, where, &names_of<T>}, memory, {}};
  return perform(comm, call);
}

// -- _v forms.

// If all ranks know the counts, they must agree on their hash.
inline request ragged(request r, std::span<std::size_t const> counts = {}) {
  std::uint64_t hash = 0;
  for (std::size_t const n : counts) hash = mix(hash, n);
  r.ragged = true;
  r.counts = static_cast<std::uint32_t>(hash);
  // Algorithms are chosen by the mean size of a block, if all ranks know the counts.
  if (!counts.empty()) r.count = std::accumulate(counts.begin(), counts.end(), std::uint64_t{0}) / counts.size();
  return r;
}

template <collective C, class Algorithm, class T, class Comm>
returned_by<Comm> move_ragged(Comm& comm, int root, std::span<std::size_t const> counts,
                              ragged_memory<std::byte> memory, options const& o, std::source_location where) {
  check_algorithm<Algorithm, C, void>(comm, o, where);
  movement<C, Algorithm, ragged_memory<std::byte>> call{
      {ragged(request_of<C, Algorithm, T>(o, 0, root), counts), o.timeout, where, &names_of<T>}, std::move(memory), {}};
  return perform(comm, call);
}

template <class Comm>
counts_and_offsets lists_for(Comm& comm) {
  if constexpr (is_communicator<std::remove_cvref_t<Comm>>)
    return counts_and_offsets(&comm.engine().counts_and_offsets);
  else return counts_and_offsets();
}

// Writes a count and an offset for each rank to `room`, in units of `unit` (bytes of an element, or 1). Without
// offsets, blocks are adjacent.
template <class Comm>
layout ragged_layout(Comm& comm, std::size_t* room, char const* what, std::span<std::size_t const> counts,
                     std::span<std::size_t const> offsets, std::size_t size, std::size_t unit,
                     std::source_location where) {
  auto const ranks = static_cast<std::size_t>(comm.size());
  if (counts.size() != ranks) expect_size(comm, join({"the list of ", what, " counts"}), counts.size(), ranks, where);
  if (!offsets.empty() && offsets.size() != ranks)
    expect_size(comm, join({"the list of ", what, " offsets"}), offsets.size(), ranks, where);
  std::size_t next = 0;
  for (std::size_t q = 0; q < ranks; ++q) {
    std::size_t const offset = offsets.empty() ? next : offsets[q];
    if (offset > size || counts[q] > size - offset)
      refuse(comm.rank(), join({what, " block ", q, " ends at element ", offset + counts[q], " of a buffer of ", size}),
             "enlarge the buffer, or correct counts and offsets", where);
    room[q] = counts[q] * unit;
    room[ranks + q] = offset * unit;
    next = offset + counts[q];
  }
  return layout::table(room, room + ranks, comm.size());
}

}  // namespace tutti::detail
