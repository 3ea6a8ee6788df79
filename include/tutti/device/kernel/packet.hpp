// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The protocol packet on devices, for small messages: each word has 4 bytes of data and 4 of a flag, written by one store.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "tutti/algorithm/collective.hpp"
#include "tutti/core/shape.hpp"
#include "tutti/device/channel/mailbox.hpp"
#include "tutti/device/channel/reach.hpp"
#include "tutti/device/kernel/jobs.hpp"
#include "tutti/reduce/convert.hpp"

namespace tutti::detail {

// Implements the schedules of one_shot in which every rank receives from all, with one block per rank. A word with the flag of
// this call also has its data, so a message takes one store, one successful load and no fence.
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
  std::size_t n;  // elements of the message, or of a block
  Op op;

  static constexpr int blocks_together = 1;  // per multiprocessor; a rank has one block

  template <class Group>
  struct room {
    std::uint32_t mismatched;  // a peer is in another call
  };

  template <block_group Group>
  TUTTI_HOST_DEVICE void operator()(Group const& group, room<Group>& shared) const {
    int const rank = first + group.block();
    auto const begin = static_cast<std::size_t>(group.rank()), step = static_cast<std::size_t>(group.size());
    std::uint64_t& calls = channels.packet_calls(rank);
    std::uint64_t const call = calls + 1;
    bool stopped = false;
    if constexpr (may_give_up<Reach>) {
      if (group.rank() == 0) reach.enter();
      stopped = load_host_word(*reach.fault) != 0;  // used only when results are stored, so its latency is hidden
      for (std::size_t k = begin; k < static_cast<std::size_t>(ranks); k += step)
        send_word(rank, static_cast<int>(k), call, channels.packet_words, reach.call);
    }
    for (std::size_t i = begin; i * unit < n; i += step) send(rank, call, i);
    if constexpr (may_give_up<Reach>) stopped |= !all_in_this_call(group, rank, call, shared);
    for (std::size_t i = begin; i * unit < n; i += step) receive(rank, call, i, stopped);
    group.sync();
    if (group.rank() == 0) {
      calls = call;
      if constexpr (may_give_up<Reach>) reach.leave(1);
    }
  }

 private:
  using A = accumulator_for<Op, T>;
  static constexpr bool combines = tutti::reduces(C), dealt = deals(C);
  // A unit is the fewest elements that fill whole words.
  static constexpr std::size_t unit = sizeof(T) % 4 == 0 ? 1 : sizeof(T) % 2 == 0 ? 2 : 4, words = unit * sizeof(T) / 4;
  struct elements {
    T of[unit];
  };
  static constexpr int peers_at_once = words < 8 ? static_cast<int>(8 / words) : 1;

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

  // -- One word to a peer, and from one. `stopped` is set if the wait for it is given up.
  TUTTI_HOST_DEVICE void send_word(int rank, int peer, std::uint64_t call, std::size_t word, std::uint32_t data) const {
    store_word<Reach::scope>(channels.inbox(peer, rank, call)[word], call << 32 | data);
  }
  TUTTI_HOST_DEVICE std::uint64_t look_for_word(int rank, int peer, std::uint64_t call, std::size_t word) const {
    return load_word<Reach::scope>(channels.inbox(rank, peer, call)[word]);
  }
  // `found`: what look_for_word has returned.
  TUTTI_HOST_DEVICE std::uint32_t receive_word(std::uint64_t found, int rank, int peer, std::uint64_t call,
                                               std::size_t word, bool& stopped) const {
    polling_wait<Reach> wait(reach, channels.timeout);
    for (; found >> 32 != static_cast<std::uint32_t>(call); found = look_for_word(rank, peer, call, word))
      if (!wait.keep_polling()) {
        stopped = true;
        break;
      }
    return static_cast<std::uint32_t>(found);
  }

  // False if a peer is in another call: waits until the watch has found that and raised a fault.
  template <class Group>
  TUTTI_HOST_DEVICE bool all_in_this_call(Group const& group, int rank, std::uint64_t call, room<Group>& shared) const {
    if (group.rank() == 0) shared.mismatched = 0;
    group.sync();
    for (int peer = group.rank(); peer < ranks; peer += group.size()) {
      bool stopped = false;
      std::size_t const last = channels.packet_words;
      bool const same =
          receive_word(look_for_word(rank, peer, call, last), rank, peer, call, last, stopped) == reach.call;
      polling_wait<Reach> wait(reach, 0);
      while (!same && wait.keep_polling()) {
      }
      if (!same || stopped) store_host_word(shared.mismatched, 1);
    }
    group.sync();
    return load_host_word(shared.mismatched) == 0;
  }

  TUTTI_HOST_DEVICE void send(int rank, std::uint64_t call, std::size_t i) const {
    elements mine = own(rank, rank, i);
    for (int k = 1; k < ranks; ++k) {
      int const peer = wrap(rank + k, ranks);
      if constexpr (dealt) mine = own(rank, peer, i);
      std::uint32_t data[words];
      std::memcpy(data, &mine, sizeof data);
      TUTTI_UNROLL
      for (std::size_t w = 0; w < words; ++w) send_word(rank, peer, call, i * words + w, data[w]);
    }
  }

  // Calls f(peer, its elements) for all ranks in order. The words of several peers are loaded before the first of them is
  // awaited, because one load takes as long as all of them.
  template <class F>
  TUTTI_HOST_DEVICE void for_each_received(int rank, std::uint64_t call, std::size_t i, bool& stopped,
                                           F const& f) const {
    for (int begin = 0; begin < ranks; begin += peers_at_once) {
      std::uint64_t found[peers_at_once][words];
      TUTTI_UNROLL
      for (int k = 0; k < peers_at_once; ++k) {
        int const peer = begin + k;
        TUTTI_UNROLL
        for (std::size_t w = 0; w < words; ++w)
          found[k][w] = peer < ranks && peer != rank ? look_for_word(rank, peer, call, i * words + w) : 0;
      }
      TUTTI_UNROLL
      for (int k = 0; k < peers_at_once; ++k) {
        int const peer = begin + k;
        if (peer >= ranks) break;
        if (peer == rank) {
          f(peer, own(rank, rank, i));
          continue;
        }
        std::uint32_t data[words];
        TUTTI_UNROLL
        for (std::size_t w = 0; w < words; ++w)
          data[w] = receive_word(found[k][w], rank, peer, call, i * words + w, stopped);
        elements all;
        std::memcpy(static_cast<void*>(&all), data, sizeof data);
        f(peer, all);
      }
    }
  }

  TUTTI_HOST_DEVICE void receive(int rank, std::uint64_t call, std::size_t i, bool stopped) const {
    if constexpr (combines) {
      A all[unit];
      for_each_received(rank, call, i, stopped, [&](int peer, elements const& next) {
        TUTTI_UNROLL
        for (std::size_t k = 0; k < unit; ++k)
          all[k] = peer == 0 ? widened<A>(next.of[k]) : static_cast<A>(op(all[k], widened<A>(next.of[k])));
      });
      if (stopped) return;
      TUTTI_UNROLL
      for (std::size_t k = 0; k < unit; ++k)
        if (i * unit + k < n) {
          if constexpr (has_finish<Op, A>) all[k] = finished<Op>{op, ranks}(all[k]);
          out[rank][i * unit + k] = narrowed<T>(all[k]);
        }
    } else {
      for_each_received(rank, call, i, stopped, [&](int peer, elements const& x) {
        if (stopped) return;
        TUTTI_UNROLL
        for (std::size_t k = 0; k < unit; ++k)
          if (i * unit + k < n) out[rank][static_cast<std::size_t>(peer) * n + i * unit + k] = x.of[k];
      });
    }
  }
};

}  // namespace tutti::detail
