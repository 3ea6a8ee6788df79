// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Channels between ranks in memory of a device: slots that go round, and how many messages were sent and taken. The counts go
// on from call to call, so nothing is cleared between calls, and a graph that was captured can be launched again.
#pragma once

#include <algorithm>
#include <bit>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <source_location>
#include <utility>
#include <vector>

#include "tutti/core/error.hpp"
#include "tutti/core/shape.hpp"
#include "tutti/core/text.hpp"
#include "tutti/transport/arrival.hpp"
#include "tutti/transport/device.hpp"
#include "tutti/transport/device_flags.hpp"

namespace tutti {

inline constexpr int most_device_ranks = 64;

// blocks   that work for a rank at most, each with channels of its own
// share    bytes of a chunk that are worth another block
// slots    of a channel: two are enough, more let a sender run ahead
// slice    bytes of a slot; 0: 32 KiB, or less where ranks are many, down to 1 KiB
// timeout  how long a rank waits for another; then the kernel fails, and the program can use the device no more
struct channel_options {
  int blocks = 4;
  std::size_t share = 8 * 1024;
  int slots = 4;
  std::size_t slice = 0;
  std::chrono::nanoseconds timeout = std::chrono::minutes{5};
};

namespace detail {

inline constexpr std::size_t device_line = 128, most_device_slice = 32 * 1024;
inline constexpr int device_tracks = 4;

// Written by the sender and by the receiver of a channel. They share no line.
struct channel_counts {
  alignas(device_line) std::uint64_t published;
  alignas(device_line) std::uint64_t consumed;
};
struct slot_head {
  std::uint32_t bytes, more;
};

// Where the channels of all ranks are; handed to kernels.
struct channel_map {
  channel_counts* counts;
  std::byte* slots;
  int ranks, blocks, window;
  std::size_t slice;
  std::uint64_t timeout;  // ns

  std::size_t channels() const { return static_cast<std::size_t>(blocks * device_tracks * ranks * ranks); }
  TUTTI_HOST_DEVICE std::size_t slot_bytes() const { return device_line + slice; }
  TUTTI_HOST_DEVICE std::size_t index(int block, int track, int from, int to) const {
    return static_cast<std::size_t>(((block * device_tracks + track) * ranks + to) * ranks + from);
  }
  TUTTI_HOST_DEVICE std::byte* slot(std::size_t channel, std::uint64_t message) const {
    auto const size = static_cast<std::size_t>(window);
    return slots + (channel * size + static_cast<std::size_t>(message % size)) * slot_bytes();
  }
};

// Inboxes for words of data and flag: two for each pair of ranks, and how many calls each rank has made.
struct packet_map {
  std::uint64_t* words;
  std::uint64_t* calls;
  int ranks;
  std::size_t capacity;   // words
  std::uint64_t timeout;  // ns

  TUTTI_HOST_DEVICE std::uint64_t* inbox(std::uint64_t call, int to, int from) const {
    auto const size = static_cast<std::size_t>(ranks);
    std::size_t const kind = call % 2;
    return words + ((kind * size + static_cast<std::size_t>(to)) * size + static_cast<std::size_t>(from)) * capacity;
  }
};

}  // namespace detail

// The channels of one block of one rank. A model of `carries_slices`; one thread of the block calls it.
template <flag_scope Scope>
class device_mailbox {
 public:
  static constexpr std::size_t slice_bytes = detail::most_device_slice;
  static constexpr int most_ranks = most_device_ranks;

  TUTTI_HOST_DEVICE device_mailbox(detail::channel_map const& channels, int rank, int block, void* lists)
      : channels_(channels), rank_(rank), block_(block), lists_(lists) {}

  TUTTI_HOST_DEVICE int rank() const noexcept { return rank_; }
  TUTTI_HOST_DEVICE void* lists() const noexcept { return lists_; }

  TUTTI_HOST_DEVICE std::byte* claim(int peer, int track, std::size_t, std::size_t) noexcept {
    std::size_t const channel = channels_.index(block_, track, rank_, peer);
    auto const& counts = channels_.counts[channel];
    auto const window = static_cast<std::uint64_t>(channels_.window);
    if (counts.published - load_acquire<Scope>(counts.consumed) == window) return nullptr;
    return channels_.slot(channel, counts.published) + detail::device_line;
  }
  TUTTI_HOST_DEVICE void publish(int peer, int track, std::size_t bytes, bool more, std::uint32_t) noexcept {
    std::size_t const channel = channels_.index(block_, track, rank_, peer);
    auto& counts = channels_.counts[channel];
    auto* const head = reinterpret_cast<detail::slot_head*>(channels_.slot(channel, counts.published));
    *head = {static_cast<std::uint32_t>(bytes), more};
    store_release<Scope>(counts.published, counts.published + 1);
  }
  TUTTI_HOST_DEVICE arrival look(int peer, int track, std::uint32_t) noexcept {
    std::size_t const channel = channels_.index(block_, track, peer, rank_);
    auto const& counts = channels_.counts[channel];
    if (load_acquire<Scope>(counts.published) == counts.consumed) return {};
    std::byte const* const slot = channels_.slot(channel, counts.consumed);
    auto const head = *reinterpret_cast<detail::slot_head const*>(slot);
    return {arrival::message, slot + detail::device_line, head.bytes, head.more != 0};
  }
  TUTTI_HOST_DEVICE void release(int peer, int track) noexcept {
    auto& counts = channels_.counts[channels_.index(block_, track, peer, rank_)];
    store_release<Scope>(counts.consumed, counts.consumed + 1);
  }

 private:
  detail::channel_map const& channels_;
  int rank_, block_;
  void* lists_;
};

// Memory of a device for messages between virtual ranks, made once and used by one call after the other, all on one stream.
// The device outlives it, and it outlives its calls and the graphs that captured some.
template <cooperative_device D>
class device_channels {
 public:
  // Throws error: bad_argument; system, where the device has not as much memory.
  device_channels(D const& on, int ranks, channel_options const& o = {})
      : on_{&on},
        share_{o.share},
        map_{checked(ranks, o)},
        counts_{on, map_.channels()},
        slots_{on, map_.channels() * static_cast<std::size_t>(map_.window) * map_.slot_bytes()},
        words_{on, 2 * pairs() * packet_words()},
        calls_{on, static_cast<std::size_t>(ranks)} {
    map_.counts = counts_.data();
    map_.slots = slots_.data();
    clear(counts_);
    clear(words_);
    clear(calls_);
  }

  D const& on() const { return *on_; }
  int size() const { return map_.ranks; }
  std::size_t share() const { return share_; }
  detail::channel_map const& map() const { return map_; }
  detail::packet_map packets() const {
    return {words_.data(), calls_.data(), map_.ranks, packet_words(), map_.timeout};
  }
  // The most of a message in packets.
  std::size_t packet_bytes() const { return packet_words() * 4; }

  // Channels keep their messages in order by that of a stream, so they have one: that of the first call.
  void expect_stream(stream_of<D> stream, std::source_location where) {
    if (!stream_) stream_ = stream;
    if (*stream_ == stream) return;
    throw error({.code = error_code::bad_argument,
                 .what = "these channels carry the calls of another stream",
                 .way_out = "make device_channels for each stream",
                 .where = where});
  }

  // Room for what calls keep on the way. It grows, and what was handed out stays, for graphs may refer to it.
  std::byte* scratch(std::size_t bytes) {
    if (scratch_.empty() || scratch_.back().size() < bytes) scratch_.emplace_back(*on_, std::bit_ceil(bytes));
    return scratch_.back().data();
  }

 private:
  static detail::channel_map checked(int ranks, channel_options const& o) {
    if (ranks < 1 || ranks > most_device_ranks || o.blocks < 1 || o.blocks > 64 || o.slots < 2 || o.slots > 64 ||
        o.share < 1 || o.timeout.count() <= 0 || o.slice > detail::most_device_slice ||
        o.slice % detail::device_line != 0)
      throw error({.code = error_code::bad_argument,
                   .what = join({"channels were asked for ", ranks, " ranks with ", o.blocks, " blocks, ", o.slots,
                                 " slots and slices of ", o.slice, " bytes"}),
                   .way_out = "ask for 1 to 64 ranks and blocks, 2 to 64 slots, and slices that are multiples of 128 "
                              "bytes up to 32 KiB; share and timeout are above 0"});
    detail::channel_map out{
        nullptr, nullptr, ranks, o.blocks, o.slots, o.slice, static_cast<std::uint64_t>(o.timeout.count())};
    std::size_t const all = std::size_t{64} << 20, slots = out.channels() * static_cast<std::size_t>(o.slots);
    if (o.slice == 0) out.slice = std::clamp<std::size_t>(std::bit_floor(all / slots), 1024, detail::most_device_slice);
    return out;
  }
  std::size_t pairs() const { return static_cast<std::size_t>(map_.ranks * map_.ranks); }
  std::size_t packet_words() const {
    return std::clamp<std::size_t>(std::bit_floor((std::size_t{1} << 20) / pairs()), 256, 4096);
  }
  template <class T>
  void clear(device_array<D, T> const& memory) const {
    std::vector<std::byte> const zeros(memory.size() * sizeof(T));
    on_->copy({}, memory.data(), zeros.data(), zeros.size());
    on_->wait({}, deadline::after(std::chrono::minutes{1}));
  }

  D const* on_;
  std::size_t share_;
  detail::channel_map map_;
  device_array<D, detail::channel_counts> counts_;
  device_array<D, std::byte> slots_;
  device_array<D, std::uint64_t> words_, calls_;
  std::vector<device_array<D, std::byte>> scratch_;
  std::optional<stream_of<D>> stream_;
};

}  // namespace tutti
