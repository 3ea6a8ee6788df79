// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What the collectives that only move values, and the _v forms, share.
#pragma once

#include <cstddef>
#include <cstdint>
#include <numeric>
#include <source_location>
#include <span>
#include <string>

#include "tutti/started/asynchronous.hpp"

namespace tutti::detail {

template <class R>
std::byte const* bytes_of(R const& range) {
  return reinterpret_cast<std::byte const*>(std::ranges::data(range));
}
template <class R>
std::byte* writable_bytes_of(R& range) {
  return reinterpret_cast<std::byte*>(std::ranges::data(range));
}

template <collective C, class Algorithm, class T>
request movement_request(options const& o, std::uint64_t count, int root = 0) {
  return {.what = C,
          .algorithm = id_of<Algorithm>(o),
          .how = o.protocol,
          .root = root,
          .type = type_id<T>(),
          .element_bytes = sizeof(T),
          .count = count,
          .unlisted = unlisted_or_none<Algorithm, C>()};
}

// A _v form: what ranks must agree on is the hash of the counts, where all ranks know them.
inline request ragged(request r, std::span<std::size_t const> counts = {}) {
  std::uint64_t hash = 0;
  for (std::size_t const n : counts) hash = mix(hash, n);
  r.ragged = true;
  r.counts = static_cast<std::uint32_t>(hash);
  // The choice goes by the mean block, which all know where they know the counts.
  if (!counts.empty()) r.count = std::accumulate(counts.begin(), counts.end(), std::uint64_t{0}) / counts.size();
  return r;
}

// The _v forms.
template <class Algorithm, collective C, class T, class Comm>
returned_by<Comm> move_ragged(Comm& comm, request const& r, surfaces<std::byte> const& memory, options const& o,
                              std::source_location where) {
  check_algorithm<Algorithm, C, void>(comm, o, where);
  auto const used = memory_of(C, "_v", [=](auto& use) {
    if (memory.input.data != nullptr)
      memory.input.where.for_each_extent([&](extent e) { use.reads(memory.input.data + e.begin, e.count); });
    if (memory.output.data != nullptr)
      memory.output.where.for_each_extent([&](extent e) { use.writes(memory.output.data + e.begin, e.count); });
  });
  return call_on<Algorithm>(comm, o, where, used, [=](auto& ranks) {
    auto call = open(ranks, r, o, type_name<T>(), {}, where);
    surfaces<std::byte> own = memory;
    execute<Algorithm, C>(ranks.engine(), call, r, moving{}, own);
  });
}

// The collectives whose blocks have the size that the request says. `from` and `to` are what this rank has of both: its
// own block, or those of all.
template <class Algorithm, collective C, class T, class Comm>
returned_by<Comm> move_blocks(Comm& comm, request const& r, std::byte const* from, std::byte* to, bool in_place,
                              options const& o, std::source_location where) {
  check_algorithm<Algorithm, C, void>(comm, o, where);
  auto const used = memory_of(C, "", [=, ranks = static_cast<std::size_t>(comm.size())](auto& use) {
    use.reads(from, r.bytes() * (deals(C) ? ranks : 1));
    use.writes(to, r.bytes() * (collects(C) ? ranks : 1));
  });
  return call_on<Algorithm>(comm, o, where, used, [=](auto& ranks) {
    auto call = open(ranks, r, o, type_name<T>(), {}, where);
    if (call.plan().how == protocol::packet) return execute_packets<C>(ranks.engine(), call, r, moving{}, from, to);
    layout const blocks = layout::blocks(r.bytes(), ranks.size()), own = blocks.only(ranks.rank());
    surfaces<std::byte> memory{.input = {from, deals(C) ? blocks : own},
                               .output = {to, collects(C) ? blocks : own},
                               .scratch = {nullptr, blocks},
                               .in_place = in_place};
    execute<Algorithm, C>(ranks.engine(), call, r, moving{}, memory);
  });
}

// Copies what a lone rank sends itself.
inline void move_alone(std::byte const* from, std::byte* to, std::size_t bytes) {
  if (from != to && bytes > 0) std::memmove(to, from, bytes);
}

// The blocks of a _v form: a count and an offset for each rank, in units of `unit` (bytes an element, or 1). Offsets that
// are not given follow each other without gaps. They live in two of the lists of `comm`, by `slot`.
template <class Comm>
layout ragged_layout(Comm& comm, std::size_t slot, char const* what, std::span<std::size_t const> counts,
                     std::span<std::size_t const> offsets, std::size_t size, std::size_t unit,
                     std::source_location where) {
  auto const ranks = static_cast<std::size_t>(comm.size());
  if (counts.size() != ranks) expect_size(comm, join({"the list of ", what, " counts"}), counts.size(), ranks, where);
  if (!offsets.empty() && offsets.size() != ranks)
    expect_size(comm, join({"the list of ", what, " offsets"}), offsets.size(), ranks, where);
  auto& n = numbers_of(comm)[2 * slot];
  auto& at = numbers_of(comm)[2 * slot + 1];
  n.resize(ranks);
  at.resize(ranks);
  std::size_t next = 0;
  for (std::size_t q = 0; q < ranks; ++q) {
    std::size_t const offset = offsets.empty() ? next : offsets[q];
    if (offset > size || counts[q] > size - offset)
      refuse(comm.rank(), join({what, " block ", q, " ends at element ", offset + counts[q], " of a buffer of ", size}),
             "enlarge the buffer, or correct counts and offsets", where);
    n[q] = counts[q] * unit;
    at[q] = offset * unit;
    next = offset + counts[q];
  }
  return layout::table(n.data(), at.data(), comm.size());
}

}  // namespace tutti::detail
