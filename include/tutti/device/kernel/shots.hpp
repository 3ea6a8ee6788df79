// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// all_reduce by one_shot or two_shot with one launch per rank, whose blocks read the memory of all ranks and meet by flags.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tutti/core/partition.hpp"
#include "tutti/core/shape.hpp"
#include "tutti/device/channel/mailbox.hpp"
#include "tutti/device/channel/reach.hpp"
#include "tutti/device/kernel/combine.hpp"
#include "tutti/device/kernel/jobs.hpp"
#include "tutti/reduce/fused.hpp"

namespace tutti::detail {

// Parts are multiples of this number of elements, so that all are aligned alike.
inline constexpr std::size_t shots_grain = 16;
inline constexpr int shots_blocks_together = 2;  // per multiprocessor

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

// Block b of a rank takes part b of the message, in pieces that fit its room, and meets block b of every other rank: each tells
// all others that it has come, then waits for all. What they did before the meeting, all see after it. one_shot shows the input,
// meets, and combines that of all ranks. two_shot combines a chunk of each piece, shows the result, meets again, and reads the
// chunks of the others.
//
// What is shown at meeting m lies in half m % 2. Who comes to meeting m+1 has read what was shown at meeting m, and m+2 is
// prepared after meeting m+1, so nothing that is still to be read is overwritten. All blocks have equally many meetings, so
// this also holds from one call to the next, in which blocks may be more or fewer. Flags alternate likewise, and hold the
// number of the meeting, which is kept in device memory and grows for ever, and that of the call. So nothing is reset, replays of
// a captured graph continue to count, and blocks in different calls never meet.
//
// Registered memory is read in place, and a last meeting ends the call: all have read it.
//
// A block that gives up stores no more, so each element of the output has its old value or the right one.
template <class In, class Out, class Fused, class Reach = several_processes>
struct shots_work {
  In const* in;
  Out* out;
  std::byte const* inputs[max_device_ranks];  // the data of posts, or registered memory
  std::byte* results[max_device_ranks];
  meeting_map meetings;
  Reach reach;
  int rank, shots, blocks, rounds;
  bool in_place;           // inputs and results are registered
  std::size_t n, each;     // elements of the message, and of a piece
  std::size_t room_bytes;  // of a block in each half
  Fused how;

  static constexpr int blocks_together = shots_blocks_together;

  template <class Group>
  struct room {
    std::uint32_t stopped;  // the ranks have given up
  };

  template <block_group Group>
  TUTTI_HOST_DEVICE void operator()(Group const& group, room<Group>& shared) const {
    std::uint64_t& met = meetings.count(rank);
    std::uint64_t const before = met;
    if (group.rank() == 0) {
      if (group.block() == 0) reach.enter();
      store_host_word(shared.stopped, load_host_word(*reach.fault));
    }
    std::uint64_t const after = carry_out(group, before, shared);
    group.sync();
    if (group.rank() == 0 && reach.leave(blocks)) met = after;
  }

 private:
  // A piece of the message.
  struct piece {
    std::size_t begin, count;
    std::size_t input_at, result_at;  // bytes from `inputs` and `results`
  };

  // Returns the number of meetings that there have been then.
  template <class Group>
  TUTTI_HOST_DEVICE std::uint64_t carry_out(Group const& group, std::uint64_t met, room<Group>& shared) const {
    team const all{group.rank(), group.size(), 0, 1};
    extent const mine = part(n, blocks, group.block(), shots_grain);
    for (int round = 0; round < rounds; ++round) {
      piece const now = piece_of(mine, round, group.block(), met + 1);
      if (!in_place) move(all, in + now.begin, reinterpret_cast<In*>(results[rank] + now.input_at), now.count);
      if (!meet(group, ++met, shared)) return met;
      combine(all, now);
      if constexpr (in_chunks) {
        if (shots == 1) continue;
        if (!meet(group, ++met, shared)) return met;
        collect(all, now);
      }
    }
    if (in_place) meet(group, ++met, shared);
    return met;
  }

  // Epilogues with arrays of their own need the whole message.
  static constexpr bool in_chunks = arrays_of<Fused> == 0;

  TUTTI_HOST_DEVICE piece piece_of(extent const& mine, int round, int block, std::uint64_t meeting) const {
    extent const slice = slice_of(mine.count, each, static_cast<std::size_t>(round));
    std::size_t const begin = mine.begin + slice.begin;
    if (in_place) return {begin, slice.count, begin * sizeof(In), begin * sizeof(Out)};
    std::size_t const first = static_cast<std::size_t>(block) * room_bytes, half = meeting % 2 * meetings.half_bytes;
    return {begin, slice.count, half + first, meetings.half_bytes - half + first};
  }

  // Returns whether all have come.
  template <class Group>
  TUTTI_HOST_DEVICE bool meet(Group const& group, std::uint64_t meeting, room<Group>& shared) const {
    std::uint64_t const sign = meeting << 32 | reach.call;
    int const block = group.block(), ranks = meetings.ranks;
    group.sync();
    for (int q = group.rank(); q < ranks; q += group.size())
      if (q != rank) store_release<Reach::scope>(meetings.flag(q, block, rank, meeting), sign);
    for (int q = group.rank(); q < ranks; q += group.size())
      if (q != rank && !comes(meetings.flag(rank, block, q, meeting), sign)) store_host_word(shared.stopped, 1);
    group.sync();
    return load_host_word(shared.stopped) == 0;
  }
  // A peer in another call never comes, and the watch finds that.
  TUTTI_HOST_DEVICE bool comes(std::uint64_t const& flag, std::uint64_t sign) const {
    polling_wait<Reach> wait(reach, 0);
    while (load_acquire<Reach::scope>(flag) != sign)
      if (!wait.keep_polling()) return false;
    return true;
  }

  TUTTI_HOST_DEVICE extent chunk_of(piece const& now, int q) const {
    return shots == 1 ? extent{0, now.count} : part(now.count, meetings.ranks, q, shots_grain);
  }
  TUTTI_HOST_DEVICE void combine(team const& all, piece const& now) const {
    extent const chunk = chunk_of(now, rank);
    switch (meetings.ranks) {
      case 2: return combine_from<2>(all, now, chunk);
      case 4: return combine_from<4>(all, now, chunk);
      case 8: return combine_from<8>(all, now, chunk);
      default: return combine_from<0>(all, now, chunk);
    }
  }
  template <int FanIn>
  TUTTI_HOST_DEVICE void combine_from(team const& all, piece const& now, extent const& chunk) const {
    auto const from = [&, this](int k) { return reinterpret_cast<In const*>(inputs[k] + now.input_at) + chunk.begin; };
    auto const to = [&, this](int k) {
      return (k == 0 ? out + now.begin : reinterpret_cast<Out*>(results[rank] + now.result_at)) + chunk.begin;
    };
    int const destinations = shots == 1 || in_place ? 1 : 2;
    auto const combine_by = [&, this](Fused const& here) {
      combining<FanIn, decltype(from), decltype(to), Fused>{
          from, meetings.ranks, to, destinations, chunk.count, here}(all);
    };
    if constexpr (in_chunks) combine_by(how);
    else combine_by(shifted_by(now.begin, how));
  }
  TUTTI_HOST_DEVICE void collect(team const& all, piece const& now) const {
    int const others = meetings.ranks - 1;
    team const mine = team_of(all, others);
    TUTTI_NO_UNROLL
    for (int job = mine.first; job < others; job += mine.teams) {
      int const q = wrap(rank + 1 + job, meetings.ranks);
      extent const theirs = chunk_of(now, q);
      move(mine, reinterpret_cast<Out const*>(results[q] + now.result_at) + theirs.begin,
           out + now.begin + theirs.begin, theirs.count);
    }
  }

  template <class T>
  TUTTI_HOST_DEVICE static void move(team const& who, T const* from, T* to, std::size_t count) {
    auto const source = [from](int) { return reinterpret_cast<word_of<T> const*>(from); };
    auto const destination = [to](int) { return reinterpret_cast<word_of<T>*>(to); };
    fused<bit_or> const how{};
    combining<1, decltype(source), decltype(destination), fused<bit_or>>{source, 1, destination, 1, count * words_in<T>,
                                                                         how}(who);
  }
};

}  // namespace tutti::detail
