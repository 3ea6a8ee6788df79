// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Collectives of byte strings of any length: the transport of objects.
#pragma once

#include <cstddef>
#include <cstdint>
#include <source_location>
#include <span>
#include <vector>

#include "tutti/collective/all_gather.hpp"
#include "tutti/collective/broadcast.hpp"
#include "tutti/collective/gather.hpp"
#include "tutti/collective/received_blocks.hpp"
#include "tutti/collective/scatter.hpp"
#include "tutti/message/byte_string.hpp"

namespace tutti::detail {

// Byte strings of several ranks, one after the other.
struct byte_strings {
  std::vector<bytes_head> heads;
  std::vector<std::size_t> counts, offsets;
  std::vector<std::byte> all;

  std::size_t lay_out() {
    std::size_t end = 0;
    for (bytes_head const& head : heads) {
      counts.push_back(static_cast<std::size_t>(head.bytes));
      offsets.push_back(end);
      end += counts.back();
    }
    return end;
  }
  std::span<std::byte const> of(std::size_t rank) const { return {all.data() + offsets[rank], counts[rank]}; }
};

// Room for the bytes that other ranks send.
template <class Comm>
void make_room(Comm& comm, std::vector<std::byte>& room, std::uint64_t bytes, std::source_location where) {
  revoking_without_memory(comm, bytes, where, [&] { room.resize(bytes); });
}

template <class Comm>
void broadcast_bytes(Comm& comm, byte_string& string, int root, std::source_location where) {
  broadcast(comm, std::span(&string.head, 1), root, {}, where);
  make_room(comm, string.bytes, string.head.bytes, where);
  broadcast(comm, string.bytes, root, {}, where);
}

template <class Comm>
byte_strings all_gather_bytes(Comm& comm, byte_string const& mine, std::source_location where) {
  comm.expect_usable(where);
  byte_strings out;
  out.heads.resize(static_cast<std::size_t>(comm.size()));
  all_gather(comm, std::span(&mine.head, 1), out.heads, {}, where);
  make_room(comm, out.all, out.lay_out(), where);
  all_gather_v(comm, mine.bytes, out.all, out.counts, {}, {}, where);
  return out;
}

// Returns nothing on ranks other than the root.
template <class Comm>
byte_strings gather_bytes(Comm& comm, byte_string const& mine, int root, std::source_location where) {
  byte_strings out;
  if (comm.rank() == root) out.heads.resize(static_cast<std::size_t>(comm.size()));
  gather(comm, std::span(&mine.head, 1), out.heads, root, {}, where);
  make_room(comm, out.all, out.lay_out(), where);
  gather_v(comm, mine.bytes, out.all, out.counts, {}, root, {}, where);
  return out;
}

// Only the root uses `from`.
template <class Comm>
byte_string scatter_bytes(Comm& comm, byte_strings const& from, int root, std::source_location where) {
  byte_string out;
  scatter(comm, from.heads, std::span(&out.head, 1), root, {}, where);
  make_room(comm, out.bytes, out.head.bytes, where);
  scatter_v(comm, from.all, from.counts, out.bytes, {}, root, {}, where);
  return out;
}

}  // namespace tutti::detail
