// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Transfers of byte strings of any length, each with a header that describes it: the transport of objects.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <source_location>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tutti/call/survive.hpp"
#include "tutti/collective/all_gather.hpp"
#include "tutti/collective/broadcast.hpp"
#include "tutti/collective/gather.hpp"
#include "tutti/collective/scatter.hpp"
#include "tutti/core/error.hpp"
#include "tutti/core/text.hpp"

namespace tutti::detail {

// Sent before the bytes. A rank that failed to produce its bytes sends the reason instead, because its peers wait for
// it.
struct bytes_head {
  std::uint64_t bytes = 0;
  std::uint32_t type = 0;  // type_id
  std::uint32_t failed = 0;
};
struct byte_string {
  bytes_head head;
  std::vector<std::byte> bytes;
};

inline byte_string reason(std::uint32_t type, std::string_view text) {
  auto const* const begin = reinterpret_cast<std::byte const*>(text.data());
  return {{text.size(), type, 1}, {begin, begin + text.size()}};
}

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

// A rank without memory for its result revokes the communicator, so that nobody waits for it.
template <class Comm>
void make_room(Comm& comm, std::vector<std::byte>& room, std::uint64_t bytes, std::source_location where) {
  try {
    room.resize(static_cast<std::size_t>(bytes));
  } catch (std::exception const&) {
    std::string const what = join({"rank ", comm.rank(), " has no memory for objects of ", bytes, " bytes"});
    comm.revoke(what);
    throw error({.code = error_code::system,
                 .rank = comm.rank(),
                 .what = what,
                 .way_out = "send less at once, or provide more memory",
                 .where = where});
  }
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
