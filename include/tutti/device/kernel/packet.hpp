// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The fast body for small messages on a device: words of 4 bytes of data and 4 of a flag, each by one store.
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

// Implements the schedules of one_shot in which all hear all, with a block for each rank. A word that has the flag of this
// call has its data too, so a message takes one store and one load that finds it, and no fence.
//
// Inboxes are of two kinds, taken in turn by the parity of the call. Whoever is in call n has heard all in call n-1, hence
// nobody reads any more what was sent in call n-2, and its words may be written. The number of the call is in memory of the
// device, so a graph that was captured goes on counting.
//
// Ranks that may call different things (several processes) tell each other, in one more word, what this call is. A rank whose
// peers give up stores nothing from then on.
template <collective C, class T, class Op, class Reach = one_device>
struct packet_work {
  static_assert(all_hear_all(C) && C != collective::barrier);

  T const* in[most_device_ranks];  // of the ranks of this launch
  T* out[most_device_ranks];
  int first;  // of them
  channel_map channels;
  Reach reach;
  int ranks;
  std::size_t n;  // of the message, or of a block
  Op op;

  static constexpr int blocks_together = 1;  // on a multiprocessor: a rank has one

  template <class Group>
  struct room {
    std::uint32_t strange;  // a peer is in another call
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
      stopped = load_host_word(*reach.fault) != 0;  // needed when results are stored, so its way here costs nothing
      for (std::size_t k = begin; k < static_cast<std::size_t>(ranks); k += step)
        tell(rank, static_cast<int>(k), call, channels.packet_words, reach.call);
    }
    for (std::size_t i = begin; i * unit < n; i += step) show(rank, call, i);
    if constexpr (may_give_up<Reach>) stopped |= !all_in_this_call(group, rank, call, shared);
    for (std::size_t i = begin; i * unit < n; i += step) take(rank, call, i, stopped);
    group.sync();
    if (group.rank() == 0) {
      calls = call;
      if constexpr (may_give_up<Reach>) reach.leave(1);
    }
  }

 private:
  using A = accumulator_for<Op, T>;
  static constexpr bool combines = tutti::reduces(C), dealt = deals(C);
  // Elements that fill whole words, and those words.
  static constexpr std::size_t unit = sizeof(T) % 4 == 0 ? 1 : sizeof(T) % 2 == 0 ? 2 : 4, words = unit * sizeof(T) / 4;
  struct elements {
    T of[unit];
  };

  // Elements of unit i of this rank's block for another.
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

  // -- One word to a peer, and from one, which comes or never does.
  TUTTI_HOST_DEVICE void tell(int rank, int peer, std::uint64_t call, std::size_t word, std::uint32_t data) const {
    store_word<Reach::scope>(channels.inbox(peer, rank, call)[word], call << 32 | data);
  }
  TUTTI_HOST_DEVICE std::uint32_t hear(int rank, int peer, std::uint64_t call, std::size_t word, bool& stopped) const {
    std::uint64_t const& from = channels.inbox(rank, peer, call)[word];
    patient_look<Reach> look(reach, channels.timeout);
    std::uint64_t found = load_word<Reach::scope>(from);
    for (; found >> 32 != static_cast<std::uint32_t>(call); found = load_word<Reach::scope>(from))
      if (!look.found_nothing()) {
        stopped = true;
        break;
      }
    return static_cast<std::uint32_t>(found);
  }

  // False where all give up, the reason for which a watch finds.
  template <class Group>
  TUTTI_HOST_DEVICE bool all_in_this_call(Group const& group, int rank, std::uint64_t call, room<Group>& shared) const {
    if (group.rank() == 0) shared.strange = 0;
    group.sync();
    for (int peer = group.rank(); peer < ranks; peer += group.size()) {
      bool stopped = false;
      bool const same = hear(rank, peer, call, channels.packet_words, stopped) == reach.call;
      patient_look<Reach> look(reach, 0);
      while (!same && look.found_nothing()) {
      }
      if (!same || stopped) store_host_word(shared.strange, 1);
    }
    group.sync();
    return load_host_word(shared.strange) == 0;
  }

  TUTTI_HOST_DEVICE void show(int rank, std::uint64_t call, std::size_t i) const {
    for (int k = 1; k < ranks; ++k) {
      int const peer = wrap(rank + k, ranks);
      elements const mine = own(rank, peer, i);
      std::uint32_t data[words];
      std::memcpy(data, &mine, sizeof data);
      TUTTI_UNROLL
      for (std::size_t w = 0; w < words; ++w) tell(rank, peer, call, i * words + w, data[w]);
    }
  }

  TUTTI_HOST_DEVICE elements heard(int rank, int peer, std::uint64_t call, std::size_t i, bool& stopped) const {
    if (peer == rank) return own(rank, rank, i);
    std::uint32_t data[words];
    TUTTI_UNROLL
    for (std::size_t w = 0; w < words; ++w) data[w] = hear(rank, peer, call, i * words + w, stopped);
    elements all;
    std::memcpy(static_cast<void*>(&all), data, sizeof data);
    return all;
  }

  TUTTI_HOST_DEVICE void take(int rank, std::uint64_t call, std::size_t i, bool stopped) const {
    if constexpr (combines) {
      A all[unit];
      elements const one = heard(rank, 0, call, i, stopped);
      TUTTI_UNROLL
      for (std::size_t k = 0; k < unit; ++k) all[k] = widened<A>(one.of[k]);
      for (int peer = 1; peer < ranks; ++peer) {
        elements const next = heard(rank, peer, call, i, stopped);
        TUTTI_UNROLL
        for (std::size_t k = 0; k < unit; ++k) all[k] = static_cast<A>(op(all[k], widened<A>(next.of[k])));
      }
      if (stopped) return;
      TUTTI_UNROLL
      for (std::size_t k = 0; k < unit; ++k)
        if (i * unit + k < n) {
          if constexpr (has_finish<Op, A>) all[k] = finished<Op>{op, ranks}(all[k]);
          out[rank][i * unit + k] = narrowed<T>(all[k]);
        }
    } else {
      for (int peer = 0; peer < ranks; ++peer) {
        elements const x = heard(rank, peer, call, i, stopped);
        if (stopped) return;
        TUTTI_UNROLL
        for (std::size_t k = 0; k < unit; ++k)
          if (i * unit + k < n) out[rank][static_cast<std::size_t>(peer) * n + i * unit + k] = x.of[k];
      }
    }
  }
};

}  // namespace tutti::detail
