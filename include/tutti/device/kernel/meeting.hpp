// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// How the blocks of ranks that meet share a message, and the memory in which they meet.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "tutti/core/partition.hpp"
#include "tutti/device/channel/mailbox.hpp"
#include "tutti/reduce/fused.hpp"
#include "tutti/reduce/rows.hpp"
#include "tutti/reduce/wire.hpp"

namespace tutti::detail {

// How a message is cut. Chunk q is the shard of rank q, which combines it in two_shot; in one_shot, the whole message is one
// chunk. Each block takes a part of every chunk, in pieces that fit its room.
struct shots_cut {
  even_parts chunks;
  std::size_t part_size, piece_size;  // elements of a chunk; multiples of a unit, if there is room
  std::size_t piece_bytes;            // of the room for a piece
  int rounds;                         // pieces of a part

  // Piece `round` of the part of `block`, from the start of chunk q.
  TUTTI_HOST_DEVICE extent piece(int q, int block, int round) const {
    extent const mine = slice_of(chunks.at(q).count, part_size, static_cast<std::size_t>(block));
    extent const out = slice_of(mine.count, piece_size, static_cast<std::size_t>(round));
    return {mine.begin + out.begin, out.count};
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
    auto const at = static_cast<std::size_t>(block * ranks + from) * 2 + static_cast<std::size_t>(meeting % 2);
    return reinterpret_cast<std::uint64_t*>(posts[rank] + device_line)[at];
  }
  std::byte* data(int rank) const { return posts[rank] + flag_bytes(); }
};

}  // namespace tutti::detail
