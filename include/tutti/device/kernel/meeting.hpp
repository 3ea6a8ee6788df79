// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// How the blocks of ranks that meet share a message, and the memory in which they meet, by flags.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "tutti/core/partition.hpp"
#include "tutti/device/channel/mailbox.hpp"
#include "tutti/device/channel/reach.hpp"
#include "tutti/device/model/device.hpp"
#include "tutti/device/model/flags.hpp"
#include "tutti/reduce/fused.hpp"
#include "tutti/reduce/rows.hpp"
#include "tutti/reduce/wire.hpp"

namespace tutti::detail {

// A piece of a chunk.
struct shots_piece {
  std::size_t begin, count;  // in the message
  std::size_t in_chunk;      // elements of the chunk before it
  std::size_t room;          // bytes before its room
};

// How a message is cut. Chunk q is the shard of rank q, which combines it in two_shot; in one_shot, the whole message is one
// chunk. Each block takes a part of every chunk, in pieces that fit its room.
struct shots_cut {
  even_parts chunks;
  std::size_t part_size, piece_size;  // elements of a chunk; multiples of a unit, if there is room
  std::size_t piece_bytes;            // of the room for a piece
  int rounds;                         // pieces of a part

  // Piece `round` of the part of `block` of chunk q.
  TUTTI_HOST_DEVICE shots_piece piece(int q, int block, int round) const {
    extent const chunk = chunks.at(q), part = slice_of(chunk.count, part_size, static_cast<std::size_t>(block)),
                 out = slice_of(part.count, piece_size, static_cast<std::size_t>(round));
    std::size_t const in_chunk = part.begin + out.begin;
    return {chunk.begin + in_chunk, out.count, in_chunk, static_cast<std::size_t>(q) * piece_bytes};
  }
};

// Parts and pieces of a chunk have whole units of elements, which take so many bytes of a room, and chunks have whole grains.
struct shots_unit {
  std::size_t elements, bytes;
  bool divisible;  // into elements
  std::size_t grain = shard_grain;

  shots_unit smallest() const { return divisible ? shots_unit{1, bytes / elements, true} : *this; }
};
// In whole rows, of which inputs and their sums are shown.
template <class In, class Out, class Wire, class Epilogue>
constexpr shots_unit shots_unit_of(rows_of<Epilogue> const& rows) {
  return {rows.length, rows.length * sizeof(In), false, rows.length};
}
template <class In, class Out, class Wire>
constexpr shots_unit shots_unit_of(no_rows const&) {
  if constexpr (!std::is_same_v<Wire, as_they_are>)
    return {wire_format<Wire>::block, wire_bytes<wire_format<Wire>>(1), false};
  else return {shard_grain, shard_grain * std::max(sizeof(In), sizeof(Out)), true};
}

// Memory of each rank's device to which its peers have access: the number of meetings so far, a flag for each block, peer and
// parity of the meeting, and two halves for data.
struct meeting_map {
  static constexpr int max_blocks = 64;

  std::byte* posts[max_device_ranks];
  int ranks;
  std::size_t half_bytes;

  TUTTI_HOST_DEVICE std::size_t flag_bytes() const {
    return device_line + static_cast<std::size_t>(max_blocks * ranks * 2) * sizeof(std::uint64_t);
  }
  std::size_t post_bytes() const { return flag_bytes() + 2 * half_bytes; }

  TUTTI_HOST_DEVICE std::uint64_t& count(int rank) const { return *reinterpret_cast<std::uint64_t*>(posts[rank]); }
  // By which block `block` of rank `from` tells that of `rank` that it has come.
  TUTTI_HOST_DEVICE std::uint64_t& flag(int rank, int block, int from, std::uint64_t meeting) const {
    auto const at = static_cast<std::size_t>(block * ranks + from) * 2 + meeting % 2;
    return reinterpret_cast<std::uint64_t*>(posts[rank] + device_line)[at];
  }
  std::byte* data(int rank) const { return posts[rank] + flag_bytes(); }
};

// Block `block` of a rank meets those of the other ranks: tells each that it has come, and waits for it. What they did before the
// meeting, all see after it. All members of the block call it, between barriers; it returns false to one that has waited in vain. A
// peer in another call never comes, and the watch finds that.
template <block_group Group, class Reach>
TUTTI_HOST_DEVICE bool meet_peers(Group const& group, meeting_map const& map, Reach const& reach, int rank,
                                  std::uint64_t meeting) {
  // Signs of one call differ for all meetings, and those of one meeting for all calls.
  std::uint64_t const sign = meeting << 32 | (reach.call ^ meeting >> 32);
  int const block = group.block();
  for (int q = group.rank(); q < map.ranks; q += group.size())
    if (q != rank) store_release<Reach::scope>(map.flag(q, block, rank, meeting), sign);
  bool came = true;
  for (int q = group.rank(); q < map.ranks; q += group.size()) {
    if (q == rank) continue;
    polling_wait<Reach> wait(reach, 0);
    while (came && load_acquire<Reach::scope>(map.flag(rank, block, q, meeting)) != sign) came = wait.keep_polling();
  }
  return came;
}

}  // namespace tutti::detail
