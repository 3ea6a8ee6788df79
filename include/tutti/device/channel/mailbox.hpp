// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Messages between ranks in device memory: rings of slots, with counts of the messages sent and received. Counts continue across
// calls, so nothing is cleared between calls, and a captured graph can be replayed.
#pragma once

#include <algorithm>
#include <bit>
#include <chrono>
#include <cstddef>
#include <cstdint>

#include "tutti/core/config.hpp"
#include "tutti/core/error.hpp"
#include "tutti/core/text.hpp"
#include "tutti/device/model/flags.hpp"
#include "tutti/transport/arrival.hpp"

namespace tutti {

namespace detail {

inline constexpr int max_device_ranks = 64;

}  // namespace detail

// blocks   the largest number of blocks that work for a rank, each with channels of its own
// share    bytes of a chunk that justify another block
// slots    per channel: two suffice, more let a sender run ahead
// slice    bytes of a slot; 0: 32 KiB, or less with many ranks, down to 1 KiB
// timeout  how long a rank waits for another; after that the kernel aborts, and the process cannot use the device any more
struct channel_options {
  int blocks = 4;
  std::size_t share = 8 * 1024;
  int slots = 4;
  std::size_t slice = 0;
  std::chrono::nanoseconds timeout = std::chrono::minutes{5};
};

namespace detail {

inline constexpr std::size_t device_line = 128, max_device_slice = 32 * 1024;
inline constexpr int device_tracks = 4;

// One end of a channel, in the memory of the rank that polls it: the number of messages that the other end has sent or received,
// and that this one has.
struct alignas(device_line) channel_end {
  std::uint64_t theirs;
  std::uint64_t own;
};
struct slot_head {
  std::uint32_t bytes_and_more, tag;  // highest bit: further slices follow
};

// Each rank has a post in memory of its device, to which others write: its ends of all channels, the slots of channels to it, an
// inbox for packets from each rank, and the number of calls by packets that it has made. This map of posts is passed to kernels.
struct channel_map {
  std::byte* posts[max_device_ranks];
  int ranks, blocks, window;
  std::size_t slice;
  std::size_t packet_words;  // of data in an inbox; there are two inboxes per sender
  std::uint64_t timeout;     // ns

  // Throws error: bad_argument.
  static channel_map checked(int ranks, channel_options const& o) {
    if (ranks < 1 || ranks > max_device_ranks || o.blocks < 1 || o.blocks > 64 || o.slots < 2 || o.slots > 64 ||
        o.share < 1 || o.timeout.count() <= 0 || o.slice > max_device_slice || o.slice % device_line != 0)
      throw error(
          {.code = error_code::bad_argument,
           .what = join({"device_channels of ", ranks, " ranks, ", o.blocks, " blocks, ", o.slots,
                         " slots and slices of ", o.slice, " bytes are not supported"}),
           .way_out =
               "use 1 to 64 ranks and blocks, 2 to 64 slots, slices that are multiples of 128 bytes up to 32 KiB, "
               "and a positive share and timeout"});
    channel_map out{{}, ranks, o.blocks, o.slots, o.slice, 0, static_cast<std::uint64_t>(o.timeout.count())};
    std::size_t const p = static_cast<std::size_t>(ranks),
                      slots = p * out.channels() * static_cast<std::size_t>(o.slots), all = std::size_t{64} << 20;
    if (o.slice == 0) out.slice = std::clamp<std::size_t>(std::bit_floor(all / slots), 1024, max_device_slice);
    out.packet_words = std::clamp<std::size_t>(std::bit_floor((std::size_t{1} << 20) / (p * p)), 256, 4096);
    return out;
  }

  // The number of channels of a rank in each direction.
  TUTTI_HOST_DEVICE std::size_t channels() const { return static_cast<std::size_t>(blocks * device_tracks * ranks); }
  TUTTI_HOST_DEVICE std::size_t slot_bytes() const { return device_line + slice; }
  TUTTI_HOST_DEVICE std::size_t packets_begin() const { return 2 * channels() * sizeof(channel_end); }
  // An inbox has a line more than the words for data, for the word that identifies the call.
  TUTTI_HOST_DEVICE std::size_t inbox_stride() const { return packet_words + device_line / 8; }
  TUTTI_HOST_DEVICE std::size_t inbox_words() const { return 2 * static_cast<std::size_t>(ranks) * inbox_stride(); }
  // The part that is 0 before the first call; slots follow.
  TUTTI_HOST_DEVICE std::size_t flag_bytes() const { return packets_begin() + inbox_words() * 8 + device_line; }
  std::size_t post_bytes() const { return flag_bytes() + channels() * static_cast<std::size_t>(window) * slot_bytes(); }
  // The longest message in packets.
  std::size_t packet_bytes() const { return packet_words * 4; }

  TUTTI_HOST_DEVICE std::size_t index(int block, int track, int peer) const {
    return static_cast<std::size_t>((block * device_tracks + track) * ranks + peer);
  }
  // The ends of a channel at a rank: from a peer, and to it.
  TUTTI_HOST_DEVICE channel_end& incoming(int rank, std::size_t channel) const {
    return reinterpret_cast<channel_end*>(posts[rank])[channel];
  }
  TUTTI_HOST_DEVICE channel_end& outgoing(int rank, std::size_t channel) const {
    return reinterpret_cast<channel_end*>(posts[rank])[channels() + channel];
  }
  TUTTI_HOST_DEVICE std::byte* slot(int rank, std::size_t channel, std::uint64_t message) const {
    auto const size = static_cast<std::size_t>(window);
    return posts[rank] + flag_bytes() + (channel * size + message % size) * slot_bytes();
  }

  // The packets from another rank in a call, and the number of calls so far.
  TUTTI_HOST_DEVICE std::uint64_t* inbox(int rank, int from, std::uint64_t call) const {
    std::size_t const kind = call % 2;
    return reinterpret_cast<std::uint64_t*>(posts[rank] + packets_begin()) +
           (kind * static_cast<std::size_t>(ranks) + static_cast<std::size_t>(from)) * inbox_stride();
  }
  TUTTI_HOST_DEVICE std::uint64_t& packet_calls(int rank) const {
    return reinterpret_cast<std::uint64_t*>(posts[rank] + packets_begin())[inbox_words()];
  }
  // The number of blocks that have finished the current one.
  TUTTI_HOST_DEVICE std::uint32_t& packet_blocks(int rank) const {
    return reinterpret_cast<std::uint32_t&>((&packet_calls(rank))[1]);
  }
};

// The channels of one block of a rank: a model of `carries_slices`, called by one thread of the block.
template <flag_scope Scope>
class device_mailbox {
 public:
  static constexpr std::size_t slice_bytes = detail::max_device_slice;
  static constexpr int max_ranks = max_device_ranks;

  TUTTI_HOST_DEVICE device_mailbox(detail::channel_map const& channels, int rank, int block, void* fan_lists)
      : channels_(channels), rank_(rank), block_(block), fan_lists_(fan_lists) {}

  TUTTI_HOST_DEVICE int rank() const noexcept { return rank_; }
  TUTTI_HOST_DEVICE void* fan_lists() const noexcept { return fan_lists_; }

  TUTTI_HOST_DEVICE std::byte* claim(int peer, int track, std::size_t, std::size_t) noexcept {
    auto const& end = channels_.outgoing(rank_, channels_.index(block_, track, peer));
    if (end.own - load_acquire<Scope>(end.theirs) == static_cast<std::uint64_t>(channels_.window)) return nullptr;
    return slot_to(peer, track, end.own) + detail::device_line;
  }
  TUTTI_HOST_DEVICE void publish(int peer, int track, std::size_t bytes, bool more, std::uint32_t tag) noexcept {
    auto& end = channels_.outgoing(rank_, channels_.index(block_, track, peer));
    auto* const head = reinterpret_cast<detail::slot_head*>(slot_to(peer, track, end.own));
    *head = {static_cast<std::uint32_t>(bytes) | (more ? more_bit : 0), tag};
    store_release<Scope>(channels_.incoming(peer, channels_.index(block_, track, rank_)).theirs, ++end.own);
  }
  TUTTI_HOST_DEVICE arrival peek(int peer, int track, std::uint32_t tag) noexcept {
    std::size_t const channel = channels_.index(block_, track, peer);
    auto const& end = channels_.incoming(rank_, channel);
    if (load_acquire<Scope>(end.theirs) == end.own) return {};
    std::byte const* const slot = channels_.slot(rank_, channel, end.own);
    auto const head = *reinterpret_cast<detail::slot_head const*>(slot);
    return {head.tag == tag ? arrival::message : arrival::mismatched, slot + detail::device_line,
            head.bytes_and_more & ~more_bit, (head.bytes_and_more & more_bit) != 0};
  }
  TUTTI_HOST_DEVICE void release(int peer, int track) noexcept {
    auto& end = channels_.incoming(rank_, channels_.index(block_, track, peer));
    store_release<Scope>(channels_.outgoing(peer, channels_.index(block_, track, rank_)).theirs, ++end.own);
  }

 private:
  static constexpr std::uint32_t more_bit = 1u << 31;

  TUTTI_HOST_DEVICE std::byte* slot_to(int peer, int track, std::uint64_t message) const {
    return channels_.slot(peer, channels_.index(block_, track, rank_), message);
  }

  detail::channel_map const& channels_;
  int rank_, block_;
  void* fan_lists_;
};

}  // namespace detail

}  // namespace tutti
