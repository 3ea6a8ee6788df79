// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Carries out calls among ranks that read each other's device memory in parts, by one_shot and two_shot. Streams wait
// for each other by words; kernels never wait.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <source_location>
#include <span>
#include <string_view>
#include <vector>

#include "tutti/algorithm/one_shot.hpp"
#include "tutti/call/arguments.hpp"
#include "tutti/core/partition.hpp"
#include "tutti/core/text.hpp"
#include "tutti/core/type_name.hpp"
#include "tutti/device/front/call.hpp"
#include "tutti/device/ipc/calls.hpp"
#include "tutti/device/kernel/combine.hpp"
#include "tutti/device/kernel/jobs.hpp"
#include "tutti/device/model/device.hpp"

namespace tutti::detail {

template <sharing_device D, transport Transport>
class ipc_words {
 public:
  using calls_type = ipc_calls<D, Transport>;

  ipc_words(int rank, int size, calls_type& calls) : rank_{rank}, size_{size}, calls_{calls} {}

  template <collective C, class In, class Out, class Op>
  void combine(device_call<D, In, Out> const& c, request const& r, Op const& op, std::string_view name) {
    auto const how = in_stages<In>(op, size_);
    if constexpr (C == collective::all_reduce && works_in_parts<Op>)
      if (r.algorithm == algorithm_id::two_shot) return two_shot_of(c, r, name, how);
    if constexpr (!has_shards<Op>)
      one_shot_of<C>(c, r, name, [&](extent part, auto const& found) {
        std::vector<In const*> sources;
        peers const from = first_step<C>(c).from;
        for (int k = 0; k < from.count; ++k) sources.push_back(found(from.at(k, size_)));
        extent const own = c.got.at(0, rank_);
        std::size_t const n = std::min(part.count, own.count - std::min(own.count, part.begin));
        if (sources.empty() || n == 0) return;
        Out* const to[] = {c.out + own.begin + part.begin};
        launch_pass(c.how.stream, std::span<In const* const>(sources), std::span<Out* const>(to), n,
                    shifted_by(part.begin, how));
      });
  }

  template <collective C, class Word>
  void move(device_call<D, Word, Word> const& c, request const& r) {
    one_shot_of<C>(c, r, {}, [&](extent part, auto const& found) {
      block_moves<Word> moves{};
      peers const from = first_step<C>(c).from;
      for (int k = 0; k < from.count; ++k) {
        int const q = from.at(k, size_);
        extent const e = c.got.at(0, q);
        if (part.begin < e.count)
          moves.add(found(q), c.out + e.begin + part.begin, std::min(part.count, e.count - part.begin));
      }
      calls_.launch(moves, c.how.stream);
    });
  }

 private:
  using call = typename calls_type::call;
  using part_ranks = typename calls_type::part_ranks;

  // Parts are multiples of this number of elements, so that all are aligned alike.
  static constexpr std::size_t grain = shard_grain;

  // Ranks that share a device spend most of a call on taking turns, so kernels of further constant fan-ins would only take longer to
  // compile.
  template <class In, class Out, class How>
  void launch_pass(stream_of<D> stream, std::span<In const* const> sources, std::span<Out* const> to, std::size_t n,
                   How const& how) {
    launch_pass_for<2>(calls_.group().guarded(), stream, sources, to, n, how);
  }

  template <collective C, class In, class Out>
  step first_step(device_call<D, In, Out> const& c) const {
    return schedule<one_shot, C>{}.at({size_, c.what.root, true}, {rank_}, 0);
  }

  template <collective C, class In, class Out>
  call begin(device_call<D, In, Out> const& c, request const& r, std::string_view op) {
    peers const from = first_step<C>(c).from;
    return calls_.begin(c, r, op, waiting::streams, [&](int q) {
      for (int k = 0; k < from.count; ++k)
        if (from.at(k, size_) == q) return true;
      return false;
    });
  }

  part_ranks ranks_of(peers const& who, layout const& blocks, std::size_t begin, call const& current) const {
    return {who, blocks, begin, current.fingerprint, rank_, size_};
  }

  // Carries out schedule<one_shot, C> in parts: consume(part, found) computes this part of every block, where found(q)
  // is the data of rank q for this rank.
  template <collective C, class In, class Out, class Consume>
  void one_shot_of(device_call<D, In, Out> const& c, request const& r, std::string_view op, Consume const& consume) {
    step const mine = first_step<C>(c);
    auto const p = static_cast<std::size_t>(size_);
    std::size_t const slot = calls_.group().arena_bytes() / (deals(C) ? p : 1) / access_bytes * access_bytes;
    std::size_t const most = elements_of(slot, sizeof(In), c.where);
    std::size_t longest = 0;
    for (int k = 0; k < mine.to.count; ++k) longest = std::max(longest, c.given.at(0, mine.to.at(k, size_)).count);
    for (int k = 0; k < mine.from.count; ++k) longest = std::max(longest, c.got.at(0, mine.from.at(k, size_)).count);
    call current = begin<C>(c, r, op);
    std::size_t const each = current.in ? std::max<std::size_t>(longest, 1) : most;

    calls_.or_fault_of_all(c.where, [&] {
      for (std::size_t begin = 0; begin == 0 || begin < longest; begin += each) {
        extent const part{begin, each};
        part_ranks const readers = ranks_of(mine.to, c.given, begin, current),
                         sources = ranks_of(mine.from, c.got, begin, current);
        auto const block_for = [&](In const* base, int q) {
          return base + c.given.at(0, deals(C) ? q : rank_).begin + begin;
        };
        calls_.take_arena(current, readers);
        if (!current.in) show_part<C>(c, current, part, slot, readers);
        calls_.meet(current, 0, readers, sources);
        calls_.give_signals(current, c.how.stream);
        consume(part, [&](int q) -> In const* {
          if (q == rank_) return block_for(c.in, q);
          if (current.in) return block_for(reinterpret_cast<In const*>(current.in.at(q)), rank_);
          return reinterpret_cast<In const*>(calls_.group().arena(q) +
                                             (deals(C) ? static_cast<std::size_t>(rank_) * slot : 0));
        });
        calls_.finish(current, begin + each >= longest, readers, sources);
      }
      calls_.end(current, c.how.stream);
    });
  }

  // Copies the data that peers need to the arena, for a part of each block.
  template <collective C, class In, class Out>
  void show_part(device_call<D, In, Out> const& c, call& current, extent part, std::size_t slot,
                 part_ranks const& readers) {
    using word = word_of<In>;
    block_moves<word> moves{};
    readers([&](int q, std::uint32_t) {
      extent const e = c.given.at(0, q);
      std::size_t const n = std::min(part.count, e.count - part.begin);
      std::byte* const to = calls_.group().arena(rank_) + (deals(C) ? static_cast<std::size_t>(q) * slot : 0);
      if (deals(C) || moves.count == 0)
        moves.add(reinterpret_cast<word const*>(c.in + e.begin + part.begin), reinterpret_cast<word*>(to),
                  n * words_in<In>);
    });
    if (moves.count == 0) return;
    calls_.give_signals(current, c.how.stream);
    calls_.launch(moves, c.how.stream);
  }

  // Carries out schedule<two_shot, all_reduce>: each rank combines its shard from all ranks, then reads the combined
  // shards of the others. Parts are those of each shard.
  template <class In, class Out, class How>
  void two_shot_of(device_call<D, In, Out> const& c, request const& r, std::string_view op, How const& how) {
    std::size_t const n = c.given.at(0, 0).count, half = calls_.group().arena_bytes() / 2 / access_bytes * access_bytes;
    std::size_t const room = half / static_cast<std::size_t>(size_) / access_bytes * access_bytes;
    even_parts const shards(n, size_, grain);
    std::size_t const most = elements_of(room, std::max(sizeof(In), sizeof(Out)), c.where),
                      longest = shards.at(0).count;
    call current = begin<collective::all_reduce>(c, r, op);
    std::size_t const each = current.in ? std::max<std::size_t>(longest, 1) : most;
    part_ranks const others = ranks_of(peers{.count = size_}, c.given, 0, current);
    calls_.or_fault_of_all(c.where, [&] {
      for (std::size_t begin = 0; begin == 0 || begin < longest; begin += each) {
        auto const piece_of = [&](int q) {
          extent const all = shards.at(q), mine = slice_of(all.count, each, begin / each);
          return extent{all.begin + mine.begin, mine.count};
        };
        // Where rank q shows its input for a shard, and the result of its own.
        auto const room_of = [&](int q, int shard) {
          return reinterpret_cast<In*>(calls_.group().arena(q) + static_cast<std::size_t>(shard) * room);
        };
        auto const input_of = [&](int q, int shard) -> In const* {
          if (current.in) return reinterpret_cast<In const*>(current.in.at(q)) + piece_of(shard).begin;
          return room_of(q, shard);
        };
        auto const result_of = [&](int q) {
          if (current.out) return reinterpret_cast<Out*>(current.out.at(q)) + piece_of(q).begin;
          return reinterpret_cast<Out*>(calls_.group().arena(q) + half);
        };
        calls_.take_arena(current, others);
        if (!current.in)
          move_pieces<In>(c, current, others, [&](int q) {
            return piece_in_memory<In>{c.in + piece_of(q).begin, room_of(rank_, q), piece_of(q).count};
          });
        calls_.meet(current, 0, others, others);
        calls_.give_signals(current, c.how.stream);
        if (extent const own = piece_of(rank_); own.count > 0) {
          std::vector<In const*> sources;
          for (int q = 0; q < size_; ++q) sources.push_back(q == rank_ ? c.in + own.begin : input_of(q, rank_));
          std::vector<Out*> to{c.out + own.begin};
          if (!current.out) to.push_back(result_of(rank_));
          launch_pass(c.how.stream, std::span<In const* const>(sources), std::span<Out* const>(to), own.count,
                      shifted_by(own.begin - shards.at(rank_).begin, how));
        }
        calls_.meet(current, 1, others, others);
        move_pieces<Out>(c, current, others, [&](int q) {
          return piece_in_memory<Out>{result_of(q), c.out + piece_of(q).begin, piece_of(q).count};
        });
        calls_.finish(current, begin + each >= longest, others, others);
      }
      calls_.end(current, c.how.stream);
    });
  }

  template <class T>
  struct piece_in_memory {
    T const* from;
    T* to;
    std::size_t count;
  };
  // Gives the stream the signals so far, then moves a piece for each of the others.
  template <class T, class Call, class PieceOf>
  void move_pieces(Call const& c, call& current, part_ranks const& others, PieceOf const& piece_of) {
    using word = word_of<T>;
    block_moves<word> moves{};
    others([&](int q, std::uint32_t) {
      piece_in_memory<T> const x = piece_of(q);
      moves.add(reinterpret_cast<word const*>(x.from), reinterpret_cast<word*>(x.to), x.count * words_in<T>);
    });
    calls_.give_signals(current, c.how.stream);
    calls_.launch(moves, c.how.stream);
  }

  // The number of elements that fit such a part of the arena.
  std::size_t elements_of(std::size_t part_bytes, std::size_t bytes, std::source_location where) const {
    std::size_t const fits = part_bytes / bytes;
    if (fits == 0)
      refuse(
          rank_,
          join({"an element of ", bytes, " bytes does not fit its part of an arena of ", calls_.group().arena_bytes()}),
          "pass a larger arena to cuda_ipc, or {.arena = ...} to tutti::on", where);
    return fits > grain ? fits / grain * grain : fits;
  }

  int rank_, size_;
  calls_type& calls_;
};

}  // namespace tutti::detail
