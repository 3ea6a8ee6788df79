// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// How the memory of a window is laid out: counters of signals and rounds, inboxes for packets, and the program's elements.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

#include "tutti/core/config.hpp"
#include "tutti/core/error.hpp"
#include "tutti/core/text.hpp"
#include "tutti/device/channel/mailbox.hpp"
#include "tutti/device/model/fault_copy.hpp"
#include "tutti/device/model/flags.hpp"

namespace tutti {

// blocks    the blocks of a rank that signal, wait, meet or exchange have indices below this number
// packets   the most packets of 8 bytes that a block exchanges with each rank at once
// timeout   how long a block waits for another rank; 0: TUTTI_TIMEOUT
struct window_options {
  int blocks = 32;
  int packets = 256;
  std::chrono::nanoseconds timeout{0};
};

namespace detail {

// Every rank has a post in memory of its device, to which others write. Passed to kernels. For each block and peer there are two
// channels each way, one for signals and one for barriers.
struct window_map {
  static constexpr int max_blocks = 1024, max_packets = 1 << 15;
  enum tracks { signals, barriers };

  std::byte* posts[max_device_ranks];
  int ranks, blocks, packets;
  std::uint64_t limit;         // of a wait, in ns
  std::uint32_t const* fault;  // in host memory: not 0 once all ranks give up
  std::uint32_t* report;       // in host memory: a kernel_report of this rank, or of all

  // Throws error: bad_argument.
  static window_map checked(int ranks, window_options const& o, std::chrono::nanoseconds usual) {
    if (o.blocks < 1 || o.blocks > max_blocks || o.packets < 1 || o.packets > max_packets || o.timeout.count() < 0)
      throw error({.code = error_code::bad_argument,
                   .what = join({"a window for ", o.blocks, " blocks and ", o.packets, " packets is not supported"}),
                   .way_out = "use 1 to 1024 blocks, 1 to 32768 packets, and a timeout that is not negative"});
    auto const limit = o.timeout.count() > 0 ? o.timeout : usual;
    return {{}, ranks, o.blocks, o.packets, static_cast<std::uint64_t>(limit.count()), nullptr, nullptr};
  }

  // -- Counters.

  // Not 0 once a block of this rank has given up. Its counters may then be behind those of others.
  TUTTI_HOST_DEVICE std::uint32_t& stopped(int rank) const { return *reinterpret_cast<std::uint32_t*>(posts[rank]); }
  // What the kernels of this rank know of the fault word.
  TUTTI_HOST_DEVICE fault_copy& seen(int rank) const { return *reinterpret_cast<fault_copy*>(posts[rank] + 64); }
  // The number of rounds of packets in which a block has taken part.
  TUTTI_HOST_DEVICE std::uint64_t& rounds(int rank, int block) const {
    return reinterpret_cast<std::uint64_t*>(posts[rank] + device_line)[block];
  }
  // The ends of a channel at a rank: from a peer, and to it.
  TUTTI_HOST_DEVICE channel_end& incoming(int rank, tracks track, int block, int peer) const {
    return ends(rank)[index(track, block, peer)];
  }
  TUTTI_HOST_DEVICE channel_end& outgoing(int rank, tracks track, int block, int peer) const {
    return ends(rank)[channels() + index(track, block, peer)];
  }

  // -- Packets, in two inboxes that alternate by the parity of the round.
  TUTTI_HOST_DEVICE word_pair* inbox(int rank, int from, int block, std::uint64_t round) const {
    std::size_t const parity = round % 2, b = static_cast<std::size_t>(block), p = static_cast<std::size_t>(ranks);
    return reinterpret_cast<word_pair*>(posts[rank] + inboxes_begin()) +
           ((parity * static_cast<std::size_t>(blocks) + b) * p + static_cast<std::size_t>(from)) *
               static_cast<std::size_t>(packets);
  }

  // -- Elements of the program.
  TUTTI_HOST_DEVICE std::byte* data(int rank) const { return posts[rank] + data_begin(); }
  // What comes before them is 0 at first.
  TUTTI_HOST_DEVICE std::size_t data_begin() const {
    std::size_t const inbox_bytes = static_cast<std::size_t>(2 * blocks) * static_cast<std::size_t>(ranks) *
                                    static_cast<std::size_t>(packets) * sizeof(word_pair);
    return up_to_line(inboxes_begin() + inbox_bytes);
  }
  std::size_t post_bytes(std::size_t data_bytes) const { return data_begin() + data_bytes; }

 private:
  static TUTTI_HOST_DEVICE constexpr std::size_t up_to_line(std::size_t bytes) {
    return (bytes + device_line - 1) / device_line * device_line;
  }
  TUTTI_HOST_DEVICE std::size_t channels() const { return static_cast<std::size_t>(2 * blocks * ranks); }
  TUTTI_HOST_DEVICE std::size_t index(tracks track, int block, int peer) const {
    return static_cast<std::size_t>((track * blocks + block) * ranks + peer);
  }
  TUTTI_HOST_DEVICE std::size_t ends_begin() const {
    return device_line + up_to_line(static_cast<std::size_t>(blocks) * sizeof(std::uint64_t));
  }
  TUTTI_HOST_DEVICE channel_end* ends(int rank) const {
    return reinterpret_cast<channel_end*>(posts[rank] + ends_begin());
  }
  TUTTI_HOST_DEVICE std::size_t inboxes_begin() const { return ends_begin() + 2 * channels() * sizeof(channel_end); }
};

}  // namespace detail
}  // namespace tutti
