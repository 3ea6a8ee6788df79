// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The protocol packet on devices, for small messages: each word has 4 bytes of data and 4 of a flag, and words travel in pairs.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <numeric>

#include "tutti/algorithm/collective.hpp"
#include "tutti/core/partition.hpp"
#include "tutti/core/shape.hpp"
#include "tutti/device/channel/flagged_packet.hpp"
#include "tutti/device/channel/mailbox.hpp"
#include "tutti/device/channel/reach.hpp"
#include "tutti/device/kernel/access.hpp"
#include "tutti/device/kernel/for_device.hpp"
#include "tutti/device/kernel/jobs.hpp"
#include "tutti/reduce/convert.hpp"

namespace tutti::detail {

// Implements the schedules of one_shot in which every rank receives from all. A word with the flag of this call also has its data,
// so a message takes one store, one successful load and no fence. Each block of a rank sends and receives a part of the message.
//
// Inboxes alternate between two sets by the parity of the call. A rank in call n has received from all in call n-1, so all have
// finished reading the words of call n-2, which may be overwritten. The number of the call is in device memory, so replays of a
// captured graph continue to count.
//
// Ranks of several processes may make different calls, so one more word identifies the call. After a fault, a rank stores no
// results.
template <collective C, class T, class Op, class Reach = one_device>
struct packet_work {
  static_assert(all_hear_all(C) && C != collective::barrier);

  T const* in[max_device_ranks];  // by rank, for the ranks of this launch
  T* out[max_device_ranks];
  int first;  // rank of this launch
  channel_map channels;
  Reach reach;
  int ranks;
  int blocks;     // per rank
  std::size_t n;  // elements of the message, or of a block
  Op op;

  static constexpr int blocks_together = 1;  // per multiprocessor

  // Enough blocks for one pair of words per thread, at most 8.
  static int blocks_for(std::size_t n) {
    constexpr std::size_t bytes_of_block = 2048, most = 8;
    return static_cast<int>(std::clamp<std::size_t>(slices(n * sizeof(T), bytes_of_block), 1, most));
  }

  template <class Group>
  struct room {
    std::uint32_t mismatched;  // a peer is in another call
  };

  template <block_group Group>
  TUTTI_HOST_DEVICE void operator()(Group const& group, room<Group>& shared) const {
    int const rank = first + group.block() / blocks, block = group.block() % blocks;
    auto const begin = static_cast<std::size_t>(block * group.size() + group.rank()),
               step = static_cast<std::size_t>(blocks * group.size());
    std::uint64_t& calls = channels.packet_calls(rank);
    std::uint64_t const call = calls + 1;
    packet_mark const mark(call);
    bool stopped = false;
    if constexpr (may_give_up<Reach>) {
      stopped = reach.seen->known();
      if (begin == 0) reach.enter();
      for (std::size_t k = begin; k < static_cast<std::size_t>(ranks) && !stopped; k += step)
        store_pair(call_pair(static_cast<int>(k), rank, call), mark.on(reach.call, 0));
    }
    // A rank that has given up sends nothing in later calls either: its peers would take it for a contribution.
    for (std::size_t i = begin; i * unit < n && !stopped; i += step) send(rank, call, mark, i);
    if constexpr (may_give_up<Reach>) stopped = !all_in_this_call(group, rank, call, mark, stopped, shared);
    for (std::size_t i = begin; i * unit < n && !stopped; i += step) receive(rank, call, mark, i, stopped);
    group.sync();
    if (group.rank() == 0 && is_last(rank)) calls = call;
  }

 private:
  using A = accumulator_for<Op, T>;
  static constexpr bool combines = tutti::reduces(C), dealt = deals(C);
  // A unit is the fewest elements that fill whole pairs of words, which have 8 bytes of data.
  static constexpr std::size_t unit = 8 / std::gcd(sizeof(T), std::size_t{8}), pairs = unit * sizeof(T) / 8;
  struct elements {
    T of[unit];
  };
  // Whether the message has so many pairs: its last unit may have fewer than the others.
  TUTTI_HOST_DEVICE bool has_pair(std::size_t k) const {
    if constexpr (pairs > 1) return k < slices(n * sizeof(T), 8);
    else return true;
  }
  static constexpr int peers_at_once = pairs < 8 ? static_cast<int>(8 / pairs) : 1;

  // Whether the other blocks of this rank have finished the call.
  TUTTI_HOST_DEVICE bool is_last(int rank) const {
    if constexpr (may_give_up<Reach>) return reach.leave(blocks);
    else return is_last_of(blocks, channels.packet_blocks(rank));
  }

  // Unit i of this rank's block for a peer.
  TUTTI_HOST_DEVICE elements own(int rank, int peer, std::size_t i) const {
    T const* const from = in[rank] + (dealt ? static_cast<std::size_t>(peer) * n : 0);
    elements all;
    TUTTI_UNROLL
    for (std::size_t k = 0; k < unit; ++k) {
      all.of[k] = from[i * unit + k < n ? i * unit + k : n - 1];
      if constexpr (combines && has_prepare<Op, A>) all.of[k] = narrowed<T>(prepared<T, Op>{op}(widened<A>(all.of[k])));
    }
    return all;
  }

  // -- From a peer. `stopped` is set if the wait for it is given up.
  TUTTI_HOST_DEVICE word_pair& pair_of(int rank, int peer, std::uint64_t call, std::size_t k) const {
    return reinterpret_cast<word_pair*>(channels.inbox(rank, peer, call))[k];
  }
  // The pair that identifies the call.
  TUTTI_HOST_DEVICE word_pair& call_pair(int rank, int peer, std::uint64_t call) const {
    return pair_of(rank, peer, call, channels.packet_words / 2);
  }
  // `found`: what has been loaded from there before.
  TUTTI_HOST_DEVICE word_pair receive_pair(word_pair found, word_pair const& from, packet_mark const& mark,
                                           bool& stopped) const {
    polling_wait<Reach> wait(reach, channels.timeout);
    for (; !mark.is_on(found); found = load_pair(from))
      if (!wait.keep_polling()) {
        stopped = true;
        break;
      }
    return found;
  }

  // False if this thread has `stopped`, or a peer is in another call: waits until the watch has found that and raised a fault.
  template <class Group>
  TUTTI_HOST_DEVICE bool all_in_this_call(Group const& group, int rank, std::uint64_t call, packet_mark const& mark,
                                          bool stopped, room<Group>& shared) const {
    if (group.rank() == 0) shared.mismatched = 0;
    group.sync();
    for (int peer = group.rank(); peer < ranks && !stopped; peer += group.size()) {
      word_pair const& from = call_pair(rank, peer, call);
      word_pair const found = receive_pair(load_pair(from), from, mark, stopped);
      bool const same = static_cast<std::uint32_t>(found.of[0]) == reach.call;
      polling_wait<Reach> wait(reach, 0);
      while (!same && wait.keep_polling()) {
      }
      if (!same) store_host_word(shared.mismatched, 1);
    }
    if (stopped) store_host_word(shared.mismatched, 1);
    group.sync();
    return load_host_word(shared.mismatched) == 0;
  }

  TUTTI_HOST_DEVICE void send(int rank, std::uint64_t call, packet_mark const& mark, std::size_t i) const {
    elements mine = own(rank, rank, i);
    for (int k = 1; k < ranks; ++k) {
      int const peer = wrap(rank + k, ranks);
      if constexpr (dealt) mine = own(rank, peer, i);
      std::uint32_t data[2 * pairs];
      std::memcpy(data, &mine, sizeof data);
      word_pair* const to = &pair_of(peer, rank, call, i * pairs);
      TUTTI_UNROLL
      for (std::size_t j = 0; j < pairs; ++j)
        if (has_pair(i * pairs + j)) store_pair(to[j], mark.on(data[2 * j], data[2 * j + 1]));
    }
  }

  // Calls f(peer, its elements) for all ranks in order. The words of several peers are loaded before the first of them is
  // awaited, because one load takes as long as all of them.
  template <class F>
  TUTTI_HOST_DEVICE void for_each_received(int rank, std::uint64_t call, packet_mark const& mark, std::size_t i,
                                           bool& stopped, F const& f) const {
    for (int begin = 0; begin < ranks; begin += peers_at_once) {
      word_pair found[peers_at_once][pairs];
      TUTTI_UNROLL
      for (int k = 0; k < peers_at_once; ++k) {
        int const peer = begin + k;
        TUTTI_UNROLL
        for (std::size_t j = 0; j < pairs; ++j)
          if (peer < ranks && peer != rank && has_pair(i * pairs + j))
            found[k][j] = load_pair(pair_of(rank, peer, call, i * pairs + j));
      }
      TUTTI_UNROLL
      for (int k = 0; k < peers_at_once; ++k) {
        int const peer = begin + k;
        if (peer >= ranks) break;
        if (peer == rank) {
          f(peer, own(rank, rank, i));
          continue;
        }
        std::uint32_t data[2 * pairs]{};
        TUTTI_UNROLL
        for (std::size_t j = 0; j < pairs; ++j) {
          if (!has_pair(i * pairs + j)) break;
          word_pair const all = receive_pair(found[k][j], pair_of(rank, peer, call, i * pairs + j), mark, stopped);
          data[2 * j] = static_cast<std::uint32_t>(all.of[0]), data[2 * j + 1] = static_cast<std::uint32_t>(all.of[1]);
        }
        elements all;
        std::memcpy(static_cast<void*>(&all), data, sizeof data);
        f(peer, all);
      }
    }
  }

  // Element k of the received unit i. Senders fill the last unit with copies of its last element, but leave out pairs that have none of
  // the message, so an element behind its end can be incomplete. `op` gets the first instead.
  TUTTI_HOST_DEVICE A value_of(elements const& all, std::size_t i, std::size_t k) const {
    if constexpr (pairs > 1) return widened<A>(all.of[i * unit + k < n ? k : 0]);
    else return widened<A>(all.of[k]);
  }

  TUTTI_HOST_DEVICE void receive(int rank, std::uint64_t call, packet_mark const& mark, std::size_t i,
                                 bool stopped) const {
    if constexpr (combines) {
      A all[unit];
      expect_for_device<A const, A const>(op);
      for_each_received(rank, call, mark, i, stopped, [&](int peer, elements const& next) {
        TUTTI_UNROLL
        for (std::size_t k = 0; k < unit; ++k)
          all[k] = peer == 0 ? value_of(next, i, k) : static_cast<A>(op(all[k], value_of(next, i, k)));
      });
      if (stopped) return;
      TUTTI_UNROLL
      for (std::size_t k = 0; k < unit; ++k)
        if (i * unit + k < n) {
          if constexpr (has_finish<Op, A>) all[k] = finished<Op>{op, ranks}(all[k]);
          out[rank][i * unit + k] = narrowed<T>(all[k]);
        }
    } else {
      for_each_received(rank, call, mark, i, stopped, [&](int peer, elements const& x) {
        if (stopped) return;
        TUTTI_UNROLL
        for (std::size_t k = 0; k < unit; ++k)
          if (i * unit + k < n) out[rank][static_cast<std::size_t>(peer) * n + i * unit + k] = x.of[k];
      });
    }
  }
};

}  // namespace tutti::detail
