// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The fast body for small messages on a device: words of 4 bytes of data and 4 of a flag, each by one store.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "tutti/algorithm/collective.hpp"
#include "tutti/execute/cuda_jobs.hpp"
#include "tutti/reduce/convert.hpp"
#include "tutti/transport/device_channels.hpp"

namespace tutti::detail {

// Implements the schedules of one_shot in which all hear all, with a block for each rank. A word that has the flag of this
// call has its data too, so a message takes one store and one load that finds it, and no fence.
//
// Inboxes are of two kinds, taken in turn by the parity of the call. Whoever is in call n has heard all in call n-1, hence
// nobody reads any more what was sent in call n-2, and its words may be written. The number of the call is in memory of the
// device, so a graph that was captured goes on counting.
template <collective C, class T, class Op>
struct packet_work {
  static_assert(all_hear_all(C) && C != collective::barrier);

  T const* in[most_device_ranks];
  T* out[most_device_ranks];
  packet_map packets;
  int ranks;
  std::size_t n;  // of the message, or of a block
  Op op;

  template <class Group>
  struct room {};

  template <block_group Group>
  TUTTI_HOST_DEVICE void operator()(Group const& group, room<Group>&) const {
    int const rank = group.block();
    auto const first = static_cast<std::size_t>(group.rank()), step = static_cast<std::size_t>(group.size());
    std::uint64_t const call = packets.calls[rank] + 1;
    for (std::size_t i = first; i * unit < n; i += step) show(rank, call, i);
    for (std::size_t i = first; i * unit < n; i += step) take(rank, call, i);
    group.sync();
    if (group.rank() == 0) packets.calls[rank] = call;
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

  TUTTI_HOST_DEVICE void show(int rank, std::uint64_t call, std::size_t i) const {
    for (int k = 1; k < ranks; ++k) {
      int const peer = wrap(rank + k, ranks);
      elements const mine = own(rank, peer, i);
      std::uint32_t data[words];
      std::memcpy(data, &mine, sizeof data);
      std::uint64_t* const to = packets.inbox(call, peer, rank) + i * words;
      TUTTI_UNROLL
      for (std::size_t w = 0; w < words; ++w) store_word<flag_scope::device>(to[w], call << 32 | data[w]);
    }
  }

  TUTTI_HOST_DEVICE elements heard(int rank, int peer, std::uint64_t call, std::size_t i) const {
    if (peer == rank) return own(rank, rank, i);
    std::uint64_t const* const from = packets.inbox(call, rank, peer) + i * words;
    std::uint32_t data[words];
    TUTTI_UNROLL
    for (std::size_t w = 0; w < words; ++w) {
      bounded_wait wait(packets.timeout);
      std::uint64_t word = load_word<flag_scope::device>(from[w]);
      for (; word >> 32 != static_cast<std::uint32_t>(call); word = load_word<flag_scope::device>(from[w]))
        wait.found_nothing();
      data[w] = static_cast<std::uint32_t>(word);
    }
    elements all;
    std::memcpy(static_cast<void*>(&all), data, sizeof data);
    return all;
  }

  TUTTI_HOST_DEVICE void take(int rank, std::uint64_t call, std::size_t i) const {
    if constexpr (combines) {
      A all[unit];
      elements const first = heard(rank, 0, call, i);
      TUTTI_UNROLL
      for (std::size_t k = 0; k < unit; ++k) all[k] = widened<A>(first.of[k]);
      for (int peer = 1; peer < ranks; ++peer) {
        elements const next = heard(rank, peer, call, i);
        TUTTI_UNROLL
        for (std::size_t k = 0; k < unit; ++k) all[k] = static_cast<A>(op(all[k], widened<A>(next.of[k])));
      }
      TUTTI_UNROLL
      for (std::size_t k = 0; k < unit; ++k)
        if (i * unit + k < n) {
          if constexpr (has_finish<Op, A>) all[k] = finished<Op>{op, ranks}(all[k]);
          out[rank][i * unit + k] = narrowed<T>(all[k]);
        }
    } else {
      for (int peer = 0; peer < ranks; ++peer) {
        elements const x = heard(rank, peer, call, i);
        TUTTI_UNROLL
        for (std::size_t k = 0; k < unit; ++k)
          if (i * unit + k < n) out[rank][static_cast<std::size_t>(peer) * n + i * unit + k] = x.of[k];
      }
    }
  }
};

}  // namespace tutti::detail
