// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// all_reduce by one_shot or two_shot with one launch per rank, whose blocks read the memory of all ranks and meet by flags.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "tutti/core/partition.hpp"
#include "tutti/core/shape.hpp"
#include "tutti/device/channel/mailbox.hpp"
#include "tutti/device/channel/reach.hpp"
#include "tutti/device/kernel/combining.hpp"
#include "tutti/device/kernel/jobs.hpp"
#include "tutti/device/kernel/meeting.hpp"
#include "tutti/device/kernel/rows.hpp"
#include "tutti/device/kernel/switched.hpp"
#include "tutti/device/kernel/wire.hpp"
#include "tutti/reduce/fused.hpp"
#include "tutti/reduce/rows.hpp"
#include "tutti/reduce/wire.hpp"

namespace tutti::detail {

inline constexpr int shots_blocks_together = 2;  // per multiprocessor

// Block b of a rank takes part b of every chunk, in pieces that fit its room, and meets block b of every other rank: each tells
// all others that it has come, then waits for all. one_shot shows the input, meets, and combines that of all ranks. two_shot
// combines the pieces of its own chunk, shows the result, meets again, and reads the pieces of the other chunks.
//
// What is shown at meeting m lies in half m % 2. Who comes to meeting m+1 has read what was shown at meeting m, and m+2 is
// prepared after meeting m+1, so nothing that is still to be read is overwritten. All blocks have equally many meetings, so this also
// holds from one call to the next, in which blocks may be more or fewer. Flags alternate likewise, and tell the call and the number
// of the meeting, which is kept in device memory and grows for ever. So nothing is reset, replays of a captured graph continue to
// count, and blocks in different calls never meet.
//
// Registered memory is read in place, and a last meeting ends the call: all have read it. If a switch combines, a rank asks it for
// the sums of its own chunk and for storing them at all ranks, which then need not collect.
//
// With a wire type, ranks show their contributions and results as blocks of it, which all combine or read, their own included.
//
// A block that gives up stores no more, so each element of the output has its old value or the right one.
//
// An epilogue on rows sees the rows of all ranks: by two_shot, each shows the sums of its own, rounded to the type of the input,
// and finishes the rows of all, so that arrays of the epilogue are complete at every rank and need not travel.
template <class In, class Out, class Fused, class Wire = as_they_are, class Rows = no_rows,
          class Reach = several_processes>
struct shots_work {
  In const* in;
  Out* out;
  std::byte const* inputs[max_device_ranks];  // the data of posts, or registered memory
  std::byte* results[max_device_ranks];
  std::byte *input_everywhere, *result_everywhere;  // if a switch combines; otherwise null
  meeting_map meetings;
  Reach reach;
  int rank, shots, blocks;
  bool in_place;  // inputs and results are registered
  shots_cut cut;
  Fused how;
  Rows rows;

  static constexpr int blocks_together = shots_blocks_together;
  static constexpr bool narrows = !std::is_same_v<Wire, as_they_are>;
  static constexpr bool by_rows = !std::is_same_v<Rows, no_rows>;
  static_assert(!narrows || std::is_same_v<accumulator_for<decltype(Fused::op), In>, float>,
                "a wire type narrows elements that are combined in float");

  template <class Group>
  struct room {
    std::uint32_t stopped;  // the ranks have given up
    [[no_unique_address]] row_room<Group, In, Rows> row;
  };

  template <block_group Group>
  TUTTI_HOST_DEVICE void operator()(Group const& group, room<Group>& shared) const {
    std::uint64_t& met = meetings.count(rank);
    std::uint64_t const before = met;
    if (group.rank() == 0) store_host_word(shared.stopped, reach.seen->known());
    group.sync();
    if (group.rank() == 0 && group.block() == 0) reach.enter();
    // A rank that has given up shows nothing in later calls: others may still read what it has shown before.
    bool const takes_part = load_host_word(shared.stopped) == 0;
    std::uint64_t const after = takes_part ? carry_out(group, before, shared) : before;
    group.sync();
    if (group.rank() == 0 && reach.leave(blocks)) met = after;
  }

 private:
  // Where the pieces of a round are, in bytes from `inputs` and `results`.
  struct turn {
    int block, round;
    std::size_t input_at, result_at;
  };
  using piece = shots_piece;

  // Returns the number of meetings that there have been then.
  template <class Group>
  TUTTI_HOST_DEVICE std::uint64_t carry_out(Group const& group, std::uint64_t met, room<Group>& shared) const {
    for (int round = 0; round < cut.rounds; ++round) {
      turn const now = turn_of(group.block(), round, met + 1);
      if (!in_place) show(group, now);
      if (!meet(group, ++met, shared)) return met;
      combine(group, now, shared);
      if constexpr (works_in_parts<Fused>) {
        if (!in_two() || is_switched()) continue;
        if (!meet(group, ++met, shared)) return met;
        collect(group, now, shared);
      }
    }
    if (in_place) meet(group, ++met, shared);
    return met;
  }

  // Epilogues with arrays of their own need the whole message, or a shard.
  TUTTI_HOST_DEVICE bool in_two() const { return has_shards<Fused> || (works_in_parts<Fused> && shots == 2); }

  TUTTI_HOST_DEVICE bool is_switched() const {
    if constexpr (sums_by_switch<In, Out, Fused>) return has_switch_instructions() && input_everywhere != nullptr;
    else return false;
  }

  TUTTI_HOST_DEVICE int chunks() const { return in_two() ? meetings.ranks : 1; }
  TUTTI_HOST_DEVICE int own_chunk() const { return in_two() ? rank : 0; }

  TUTTI_HOST_DEVICE turn turn_of(int block, int round, std::uint64_t meeting) const {
    if (in_place) return {block, round, 0, 0};
    std::size_t const first = static_cast<std::size_t>(block * chunks()) * cut.piece_bytes,
                      half = meeting % 2 * meetings.half_bytes;
    return {block, round, half + first, meetings.half_bytes - half + first};
  }
  TUTTI_HOST_DEVICE piece piece_of(turn const& now, int q) const { return cut.piece(q, now.block, now.round); }
  // Where a rank shows a piece of elements T: in its room, or in registered memory.
  template <class T>
  TUTTI_HOST_DEVICE std::size_t shown_at(std::size_t base, piece const& x) const {
    return base + (in_place ? x.begin * sizeof(T) : x.room);
  }
  template <class T>
  TUTTI_HOST_DEVICE T* results_of(int q, std::size_t base, piece const& x) const {
    return reinterpret_cast<T*>(results[q] + shown_at<T>(base, x));
  }
  TUTTI_HOST_DEVICE In const* inputs_of(int q, turn const& now, piece const& x) const {
    return reinterpret_cast<In const*>(inputs[q] + shown_at<In>(now.input_at, x));
  }

  // Returns whether all have come.
  template <class Group>
  TUTTI_HOST_DEVICE bool meet(Group const& group, std::uint64_t meeting, room<Group>& shared) const {
    group.sync();
    if (!meet_peers(group, meetings, reach, rank, meeting)) store_host_word(shared.stopped, 1);
    group.sync();
    return load_host_word(shared.stopped) == 0;
  }

  template <class Group>
  TUTTI_HOST_DEVICE void show(Group const& group, turn const& now) const {
    if constexpr (narrows) {
      for_blocks(group, now, 0, chunks(), [&, this](int, piece const& x, extent const& block, auto& lane) {
        load_contributions(lane, in + x.begin + block.begin, block.count, how.before, rank);
        lane.encode(shown_by(rank, now.input_at, x), block.begin);
      });
    } else {
      for_chunks(group, 0, chunks(), [&, this](team const& some, int q) {
        piece const x = piece_of(now, q);
        move_elements(some, in + x.begin, results_of<In>(rank, now.input_at, x), x.count);
      });
    }
  }
  template <class Group>
  TUTTI_HOST_DEVICE void combine(Group const& group, turn const& now, [[maybe_unused]] room<Group>& shared) const {
    if constexpr (by_rows) {
      piece const own = piece_of(now, own_chunk());
      auto const sources = [&, this](int k) { return inputs_of(k, now, own); };
      if (in_two()) sum_up_rows(group, now, own, sources);
      else finish_rows<0>(group, own, sources, shared);
    } else if constexpr (narrows) {
      for_blocks(group, now, own_chunk(), 1, [&, this](int, piece const& x, extent const& block, auto& lane) {
        auto const from = [&, this](int k) { return shown_by(k, now.input_at, x); };
        lane.combine(meetings.ranks, from, block.begin, how.op);
        apply_epilogue_to(lane, block.count, how.after, x.in_chunk + block.begin);
        if (in_two()) lane.encode(shown_by(rank, now.result_at, x), block.begin);
        else store_values(lane, out + x.begin + block.begin, block.count);
      });
    } else {
      if constexpr (sums_by_switch<In, Out, Fused>)
        if (is_switched()) return combine_by_switch(group, now);
      // Where the output is not aligned as the sources are, these are read in the packs around its elements.
      switch (in_place || is_aligned_for<device_pack<In, Out>>(out) ? meetings.ranks : 0) {
        case 2: return combine_from<2>(group, now);
        case 4: return combine_from<4>(group, now);
        case 8: return combine_from<8>(group, now);
        default: return combine_from<0>(group, now);
      }
    }
  }
  template <class Group>
  TUTTI_HOST_DEVICE void collect(Group const& group, turn const& now, [[maybe_unused]] room<Group>& shared) const {
    if constexpr (by_rows) {
      TUTTI_NO_UNROLL
      for (int k = 0; k < chunks(); ++k) {
        int const q = wrap(rank + k, chunks());
        piece const x = piece_of(now, q);
        finish_rows<1>(group, x, [&, this](int) -> In const* { return results_of<In>(q, now.result_at, x); }, shared);
      }
    } else if constexpr (narrows) {
      for_blocks(group, now, 0, chunks(), [&, this](int q, piece const& x, extent const& block, auto& lane) {
        lane.decode(shown_by(q, now.result_at, x), block.begin);
        store_values(lane, out + x.begin + block.begin, block.count);
      });
    } else {
      for_chunks(group, rank + 1, chunks() - 1, [&, this](team const& some, int q) {
        piece const x = piece_of(now, q);
        move_elements(some, static_cast<Out const*>(results_of<Out>(q, now.result_at, x)), out + x.begin, x.count);
      });
    }
  }

  // -- Elements as they are.

  template <int FanIn, class Group>
  TUTTI_HOST_DEVICE void combine_from(Group const& group, turn const& now) const {
    piece const own = piece_of(now, own_chunk());
    auto const from = [&, this](int k) { return inputs_of(k, now, own); };
    auto const to = [&, this](int k) { return k == 0 ? out + own.begin : results_of<Out>(rank, now.result_at, own); };
    int const destinations = in_two() && !in_place ? 2 : 1;
    auto const combine_by = [&, this](Fused const& here) {
      combining<FanIn, decltype(from), decltype(to), Fused, FanIn == 0>{
          from, meetings.ranks, to, destinations, own.count, here}(all_of(group));
    };
    if constexpr (arrays_of<Fused> == 0) combine_by(how);
    else combine_by(shifted_by(own.in_chunk, how));
  }

  // The last elements of a message, if they are fewer than a pack, are combined without the switch.
  template <class Group>
  TUTTI_HOST_DEVICE void combine_by_switch(Group const& group, turn const& now) const {
    piece const own = piece_of(now, own_chunk());
    std::size_t const length = sizeof(switched_pack) / sizeof(In), rest = own.count % length, whole = own.count - rest;
    sum_by_switch(group, reinterpret_cast<In const*>(input_everywhere) + own.begin,
                  reinterpret_cast<Out*>(result_everywhere) + own.begin, whole / length);
    auto const from = [&, this](int k) { return inputs_of(k, now, own) + whole; };
    auto const to = [&, this](int k) { return results_of<Out>(k, now.result_at, own) + whole; };
    combining<0, decltype(from), decltype(to), Fused>{
        from, meetings.ranks, to, meetings.ranks, rest, how}(all_of(group));
  }

  // Calls f(team, q) for `count` chunks q from `first` on, each with some of the warps.
  template <class Group, class F>
  TUTTI_HOST_DEVICE void for_chunks(Group const& group, int first, int count, F const& f) const {
    team const mine = team_of(all_of(group), count);
    TUTTI_NO_UNROLL
    for (int job = mine.first; job < count; job += mine.teams) f(mine, wrap(first + job, chunks()));
  }

  // -- Rows.

  // The rows of a piece of the message, whose sources begin at piece(k).
  template <int FanIn, class Group, class Piece>
  TUTTI_HOST_DEVICE void finish_rows(Group const& group, piece const& x, Piece const& sources,
                                     room<Group>& shared) const {
    TUTTI_NO_UNROLL
    for (std::size_t at = 0; at < x.count; at += rows.length) {
      auto const from = [&](int k) { return sources(k) + at; };
      auto const to = [&, this](int) { return out + x.begin + at; };
      pass_of<FanIn>(from, to, (x.begin + at) / rows.length)(group, shared.row);
    }
  }
  template <class Group, class Piece>
  TUTTI_HOST_DEVICE void sum_up_rows(Group const& group, turn const& now, piece const& x, Piece const& sources) const {
    TUTTI_NO_UNROLL
    for (std::size_t at = 0; at < x.count; at += rows.length) {
      auto const from = [&](int k) { return sources(k) + at; };
      auto const to = [&, this](int) { return results_of<In>(rank, now.result_at, x) + at; };
      pass_of<0>(from, to, 0).sum_up(group);
    }
  }
  template <int FanIn, class From, class To>
  TUTTI_HOST_DEVICE auto pass_of(From const& from, To const& to, std::size_t row) const {
    return row_pass<FanIn, From, To, Fused, typename Rows::epilogue_type>{
        from, FanIn == 1 ? 1 : meetings.ranks, to, 1, row, rows, how};
  }

  // -- Blocks of a wire type.

  using format = wire_format<std::conditional_t<narrows, Wire, bfloat16>>;

  TUTTI_HOST_DEVICE wire_blocks<format> shown_by(int q, std::size_t base, piece const& x) const {
    return {results[q] + base + x.room, cut.piece_size / format::block};
  }
  // Calls f(q, piece, block, lane) for the blocks in the pieces of `count` chunks q from `first` on.
  template <class Group, class F>
  TUTTI_HOST_DEVICE void for_blocks(Group const& group, turn const& now, int first, int count, F const& f) const {
    for_wire_blocks<format>(group, count, cut.piece_size / format::block, [&, this](int job, std::size_t k, auto lane) {
      piece const x = piece_of(now, first + job);
      extent const block = slice_of(x.count, format::block, k);
      if (block.count > 0) f(first + job, x, block, lane);
    });
  }
};

}  // namespace tutti::detail
