// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What lies where in the memory that ranks of one machine share. Zeroed memory is a valid, empty segment.
#pragma once

#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "tutti/core/shape.hpp"

namespace tutti::detail {

inline constexpr std::size_t cache_line = 64;
inline constexpr std::size_t page = 4096;

// A slot carries one slice of a message. The head shares its line with short payloads, so a receiver learns "arrived" and
// reads the payload with one coherence transfer; 48 bytes at an offset of 16 are what is left of the line, aligned for
// every fundamental type.
inline constexpr std::size_t inline_bytes = 48;
// A flag every 16 KiB lets the receiver begin while the sender still copies.
inline constexpr std::size_t slot_bytes = 16 * 1024;

// How many slots the channels of a sender have, which go round. They are many, not to let a sender run ahead, but because
// writing to a line that the receiver's second-level cache still holds costs four times as much as one that was evicted
// from there: on a Zen 4 with 1 MiB of it, 7 GB/s while 256 KiB go round and 31 to 48 from 2 MiB on. The other tracks are
// of second phases and lanes, with which more passes through the cache. The channels of a sender share the slots, or those
// of many ranks would not fit into the third level: 32 MiB on 8 ranks by two_shot takes 45 ms with 4 a channel for the
// second phase, 54 to 71 with 16.
// Track 5 is that of slices of messages with tags.
constexpr std::size_t slots_of(int ranks, int track) {
  std::size_t const all = track == 0 || track == 5 ? 128 : 32,
                    share = all / static_cast<std::size_t>(ranks > 1 ? ranks - 1 : 1);
  return share < 4 ? 4 : std::bit_floor(share);
}

enum class payload : std::uint16_t { in_slot, in_line, reference, foreign };

struct alignas(cache_line) slot {
  // Low half: number of the message in its channel, from 1. High half: fingerprint of the call that it belongs to.
  std::atomic<std::uint64_t> tag;
  std::uint32_t bytes;
  payload kind;
  std::uint16_t more;  // further slices of this message follow
  alignas(16) std::byte line[inline_bytes];
  std::byte data[slot_bytes];
};
static_assert(offsetof(slot, data) == cache_line);

// One direction between two ranks: the sender owns the slots' contents, the receiver says how many it is done with.
// The slots follow it in memory.
struct alignas(cache_line) channel {
  std::atomic<std::uint64_t> consumed;

  slot& at(std::uint64_t place) { return reinterpret_cast<slot*>(this + 1)[place]; }
};

// Packets: flag and data in every line, in sets that go round, a round a call; see execute/packet.hpp.
inline constexpr std::size_t packet_bytes = 56;
inline constexpr std::size_t packet_lines = 37;
// Near sets are for calls in which all hear all, so nobody gets more than a round ahead. They stay in the first-level cache:
// 2 KiB in 0.33 us with 2 sets, 0.4 with 4, 0.55 with 8.
inline constexpr std::size_t near_sets = 2;
// Far ones are for calls in which a rank may hear from nobody: it goes on while the others read. 8 bytes by reduce, back to
// back, take 0.8 of the time with 4 and with 16; with 8 sets and cores that share no cache, 2 KiB take 1.6 times as long.
inline constexpr std::size_t far_sets = 4;
struct alignas(cache_line) packet {
  std::byte data[packet_bytes];
  std::atomic<std::uint64_t> tag;
};
static_assert(sizeof(packet) == cache_line);

// What a rank is doing, for its peers to read when they have waited long.
struct alignas(cache_line) call_record {
  static constexpr std::size_t words = 7;
  std::atomic<std::uint64_t> sequence;
  std::atomic<std::uint64_t> word[words];
};
// What a flight record has of a rank; more than a rank can be ahead by packets, or it would have forgotten the call in which
// the others wait.
inline constexpr std::size_t records = 64;
static_assert(records > far_sets);

struct name_record {
  std::atomic<std::uint32_t> id;
  char text[60];
};
inline constexpr std::size_t names = 64;

enum class presence : std::uint32_t { absent, joined, left };

enum class fetching : std::uint32_t { untried, works, refused };

// What a rank has counted in an agreement; see transport/ballot.hpp.
struct proposal {
  static constexpr std::size_t words = max_ranks / 64;
  std::atomic<std::uint64_t> number;
  std::atomic<std::uint32_t> outcome;
  std::atomic<std::uint32_t> flags;
  std::atomic<std::uint64_t> gone[words];
  std::atomic<std::uint64_t> left[words];
  std::atomic<std::uint64_t> named[words];
};
// Who has voted has read all decisions but the last.
inline constexpr std::size_t proposals = 2;

struct rank_page {
  alignas(cache_line) std::atomic<presence> status;
  std::uint32_t process;
  std::uint64_t process_namespace;  // process numbers mean something only to ranks in the same one
  std::uint64_t cores[16];          // the cores that it may run on, a bit each
  std::uint64_t probe;              // where its peers try to read its private memory, which says its process number
  std::atomic<fetching> can_fetch;  // whether it could read theirs

  alignas(cache_line) std::atomic<std::uint32_t> bell;
  std::atomic<std::uint32_t> asleep;
  std::atomic<std::uint32_t> responsive;  // it waits for messages, and sends what peers ask for

  alignas(cache_line) std::atomic<std::uint64_t> called;        // sequence number of the last call that was begun
  std::atomic<std::uint64_t> finished;                          // and of the last one that was completed
  std::atomic<std::uint32_t> knows_fault;                       // it reads no peer's memory any more
  alignas(cache_line) std::atomic<std::uint64_t> packets_read;  // the rounds of packets that it is done with
  call_record calls[records];
  call_record awaited;  // the message that it waits for
  alignas(cache_line) std::atomic<std::uint64_t> vote;
  proposal proposed[proposals];
  name_record known_names[names];
  packet near[near_sets][packet_lines];
  packet far[far_sets][packet_lines];
};

// The first fault of the communicator: whoever finds it writes it down, everyone else reports it.
struct fault_record {
  alignas(cache_line) std::atomic<std::uint32_t> state;  // 0 none, 1 being written, 2 written
  std::int32_t code;
  std::int32_t rank;
  std::int32_t peer;
  char text[1008];
};

struct segment_header {
  std::uint64_t identity;  // random
  fault_record fault;
  alignas(cache_line) std::atomic<std::uint64_t> decided;  // the last agreement, and whose proposal it is
};

// The addresses of a segment's parts. Parts that nobody touches take no memory: the mapping is sparse.
class segment {
 public:
  segment() = default;
  segment(std::byte* base, int ranks, int tracks, std::size_t heap_bytes)
      : base_(base),
        ranks_(static_cast<std::size_t>(ranks)),
        tracks_(static_cast<std::size_t>(tracks)),
        heap_bytes_(heap_bytes) {}

  std::byte* base() const { return base_; }
  std::size_t heap_bytes() const { return heap_bytes_; }
  std::size_t bytes() const { return heap_offset(ranks_); }

  segment_header& header() const { return *reinterpret_cast<segment_header*>(base_); }
  rank_page& rank(int r) const {
    return *reinterpret_cast<rank_page*>(base_ + ranks_offset() +
                                         static_cast<std::size_t>(r) * round_up(sizeof(rank_page)));
  }
  channel& between(int from, int to, int track) const {
    auto const index = static_cast<std::size_t>(to) * ranks_ + static_cast<std::size_t>(from);
    return *reinterpret_cast<channel*>(base_ + track_offset(static_cast<std::size_t>(track)) +
                                       index * channel_bytes(track));
  }
  std::size_t channel_bytes(int track) const {
    return round_up(sizeof(channel) + slots_of(static_cast<int>(ranks_), track) * sizeof(slot));
  }
  std::byte* heap(int r) const { return base_ + heap_offset(static_cast<std::size_t>(r)); }

 private:
  static constexpr std::size_t round_up(std::size_t bytes) { return (bytes + page - 1) / page * page; }
  static constexpr std::size_t ranks_offset() { return round_up(sizeof(segment_header)); }
  std::size_t track_offset(std::size_t track) const {
    std::size_t offset = ranks_offset() + ranks_ * round_up(sizeof(rank_page));
    for (std::size_t t = 0; t < track; ++t) offset += ranks_ * ranks_ * channel_bytes(static_cast<int>(t));
    return offset;
  }
  std::size_t heap_offset(std::size_t r) const { return track_offset(tracks_) + r * heap_bytes_; }

  std::byte* base_ = nullptr;
  std::size_t ranks_ = 0;
  std::size_t tracks_ = 0;
  std::size_t heap_bytes_ = 0;
};

}  // namespace tutti::detail
