// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The layout of the memory that ranks of one machine share. Zeroed memory is a valid, empty segment.
#pragma once

#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <initializer_list>

#include "tutti/core/error.hpp"
#include "tutti/core/hash.hpp"
#include "tutti/core/shape.hpp"
#include "tutti/transport/cache_lines.hpp"

namespace tutti::detail {

inline constexpr std::size_t page = 4096;

// A slot carries one slice of a message. The head shares its line with short payloads, so a receiver learns that a
// message has arrived and reads its payload with one coherence transfer; 48 bytes at offset 16 remain of the line,
// aligned for every fundamental type.
inline constexpr std::size_t inline_bytes = 48;
// One flag per 16 KiB lets the receiver begin while the sender still copies.
inline constexpr std::size_t slot_bytes = 16 * 1024;

// Tagged messages have a track of their own, after those of schedules, and their slices have another, because many small messages are
// fastest through a few slots and large ones through many.
inline constexpr int message_track = 4, slice_track = 5;
inline constexpr int all_tracks = 6;

// The number of slots that the channels of a sender use in rotation. It is large for the sake of caches, not to let the
// sender run ahead: writing to a line that the receiver's second-level cache still holds costs four times as much as
// writing to one that was evicted from it. On a Zen 4 with 1 MiB of second-level cache: 7 GB/s with 256 KiB in
// rotation, 31 to 48 from 2 MiB on. The other tracks serve second phases and lanes, whose data pass through the cache
// together with those of the first. The channels of a sender share the slots; otherwise those of many ranks would not
// fit into the third level: 32 MiB on 8 ranks by two_shot takes 45 ms with 4 slots per channel for the second phase, 54
// to 71 with 16.
constexpr std::size_t slots_of(int ranks, int track) {
  std::size_t const all = track == 0 || track == slice_track ? 128 : 32,
                    share = all / static_cast<std::size_t>(ranks > 1 ? ranks - 1 : 1);
  return share < 4 ? 4 : std::bit_floor(share);
}

// Messages of these sizes have few places, which stay in the first-level caches of both ranks. A sender takes the first place whose
// message has been read, so messages that are answered all use the same one: then 2 KiB take 0.26 us instead of 0.35 in four that
// rotate, in a program that only writes and reads. Messages in a row take 0.13 us instead of 0.21 in slots (Zen 4). Shorter messages
// gain nothing. A tagged message of 4 to 8 KiB takes two neighbours. A sender that is further ahead of its receiver uses slots, and so
// do long messages that are streamed. On a mesh all use slots: messages of 2 KiB in a row take 0.36 us instead of 0.66, 4 KiB there and
// back 3.0 instead of 3.3 (Emerald Rapids).
inline constexpr std::size_t min_close_bytes = 1024 + cache_line;
inline constexpr std::size_t max_close_bytes = 4096 + cache_line;  // with the head of a tagged message
inline constexpr std::size_t max_close_bytes_streaming = 2048 + cache_line;
inline constexpr std::size_t close_places = 4;
static_assert(close_places % 2 == 0);

enum class payload : std::uint16_t { in_slot, in_line, close, reference, foreign };

struct alignas(cache_line) slot {
  // Low half: number of the message in its channel, from 1. High half: fingerprint of the call that it belongs to.
  std::atomic<std::uint64_t> tag;
  std::uint32_t bytes;
  payload kind;
  std::uint16_t more;  // further slices of the message follow
  alignas(16) std::byte line[inline_bytes];
  std::byte data[slot_bytes];
};
static_assert(offsetof(slot, data) == cache_line);

// One direction between two ranks: the sender writes the slots, and the receiver counts how many it has released. The
// slots follow it in memory, then the close places.
struct alignas(cache_line) channel {
  std::atomic<std::uint64_t> consumed;

  slot& at(std::uint64_t place) { return reinterpret_cast<slot*>(this + 1)[place]; }
  std::byte* close(std::uint64_t slots, std::size_t place) {
    return reinterpret_cast<std::byte*>(&at(slots)) + place * max_close_bytes;
  }
};

// Packets: flag and data share each line. Sets of lines rotate, one set per call; see execute/packet.hpp.
inline constexpr std::size_t packet_bytes = 56;
inline constexpr std::size_t packet_lines = 37;
// A rank can show at most so many bytes in one call, blocks for other ranks included.
inline constexpr std::size_t max_packet_bytes = packet_lines * packet_bytes;
// Near sets serve calls in which all ranks hear from all, so no rank gets more than one round ahead. They stay in the
// first-level cache: 2 KiB take 0.33 us with 2 sets, 0.4 with 4, 0.55 with 8.
inline constexpr std::size_t near_sets = 2;
// Far sets serve calls in which a rank may hear from no other, so it can run ahead while the others still read. 8 bytes
// by reduce, back to back, take 0.8 times as long with 4 sets, and with 16; with 8 sets and cores that share no cache,
// 2 KiB take 1.6 times as long. Where ranks share cores, a rank that is further ahead gives up its core less often:
// broadcasts back to back on 4 ranks and 2 cores take 0.4 us with 32 sets instead of 1.6, and of 2 KiB 0.9 instead of 1.9.
inline constexpr std::size_t far_sets = 4;
inline constexpr std::size_t far_sets_sharing_cores = 32;
struct alignas(cache_line) packet {
  std::byte data[packet_bytes];
  std::atomic<std::uint64_t> tag;
};
static_assert(sizeof(packet) == cache_line);

// A call of a rank, or the message that it waits for, for peers that have waited long and for flight records.
struct alignas(cache_line) call_record {
  static constexpr std::size_t words = 7;
  std::atomic<std::uint64_t> sequence;
  std::atomic<std::uint64_t> word[words];
};
// How many calls of a rank a flight record contains. It exceeds the number of calls by which packets let a rank run ahead, so the call
// in which the others wait is on record. Slots let a root run further ahead of its receivers.
inline constexpr std::size_t records = 64;
static_assert(records > far_sets_sharing_cores);

struct name_record {
  std::atomic<std::uint32_t> id;
  char text[60];
};
using name_list = name_record[64];

enum class presence : std::uint32_t { absent, joined, left };

// The progress of survivors that exclude a rank: marked, then complete once all ranks that they exclude are marked.
enum class exclusion : std::uint32_t { none, marked, complete };

enum class fetching : std::uint32_t { untried, works, refused };

// The outcome that a rank proposes for an agreement; see transport/ballot.hpp.
struct proposal {
  static constexpr std::size_t words = max_ranks / 64;
  std::atomic<std::uint64_t> number;
  std::atomic<std::uint32_t> outcome;
  std::atomic<std::uint32_t> flags;
  std::atomic<std::uint64_t> gone[words];
  std::atomic<std::uint64_t> left[words];
  std::atomic<std::uint64_t> named[words];
};
// A rank that has voted has read all decisions but the last.
inline constexpr std::size_t proposals = 2;

// What the code of a fault leaves open, and the advice to users depends on.
enum class circumstance : std::int32_t {
  usual,
  all_arrived,  // no rank is late for the call that timed out
  circle,       // of ranks that wait for each other's messages
  exception,    // it made the rank leave
  refused,      // an error of its own call, which was never made, made the rank leave
  message,      // a message between two ranks: it does not fit, or matches no receive, or its array is gone
  lengths,      // a rank sent less or more than another expects
  aborted,      // a rank ends the job
  own,          // in a call by a program's own algorithm, which may be wrong
};

// A fault that a rank has found. Only its own threads write it; see publish_fault.
struct fault_record {
  alignas(cache_line) std::atomic<bool> taken;  // by one of its threads
  error_code code;
  std::int32_t rank;
  std::int32_t peer;
  circumstance when;
  char text[1004];
};

// Why a rank leaves while others still make calls, as far as it knows.
struct leaving_record {
  std::atomic<std::uint64_t> instead_of;  // a call; the record is void once the rank has made it. 0: there is no reason
  std::atomic<std::uint32_t> stores;      // odd while the rank changes the record
  std::atomic<circumstance> when;
  std::atomic<char> text[496];
};

struct rank_page {
  alignas(cache_line) std::atomic<presence> status;
  std::uint32_t process;
  std::uint64_t process_namespace;  // process numbers are comparable only within a namespace
  std::uint64_t cores[16];          // a bit for each core that the rank may run on
  std::uint64_t time_group;         // threads yield only to those of the same group; 0: that of rank 0
  std::uint64_t probe;              // where peers try to read this rank's private memory; it holds the process number
  std::atomic<fetching> can_fetch;  // whether this rank could read that of its peers
  std::atomic<exclusion> excluded;  // written by the survivors that continue without this rank
  std::atomic<std::uint32_t> core;  // where this rank was when it last waited for long, plus 1; 0: unknown

  alignas(cache_line) std::atomic<std::uint32_t> bell;
  std::atomic<std::uint32_t> asleep;
  std::atomic<std::uint32_t> responsive;  // it waits for messages, and answers requests of peers at once

  alignas(cache_line) std::atomic<std::uint64_t> called;  // sequence number of the last call begun
  std::atomic<std::uint64_t> finished;                    // and of the last call completed
  std::atomic<std::uint32_t> reading;                     // it may be reading arrays that peers own
  // the number of rounds of packets that it has finished with
  alignas(cache_line) std::atomic<std::uint64_t> packets_read;
  call_record calls[records];
  call_record awaited;  // the message outside calls that it waits for
  alignas(cache_line) std::atomic<std::uint64_t> vote;
  proposal proposed[proposals];
  name_list known_names;
  leaving_record leaving;
  packet near[near_sets][packet_lines];
  packet far[far_sets_sharing_cores][packet_lines];
  fault_record found;
};

struct segment_header {
  std::uint64_t identity;                                      // random
  alignas(cache_line) std::atomic<std::uint32_t> first_fault;  // the rank that found it, plus 1; 0: there is none
  // The first uncaught error that was printed in full: a hash of its text << 32 | the rank, plus 1; 0: none.
  std::atomic<std::uint64_t> told;
  alignas(cache_line) std::atomic<std::uint64_t> decided;  // the last agreement, and the rank whose proposal it is
};

// Differs between versions of tutti whose ranks cannot share a segment.
inline constexpr std::uint64_t segment_layout = hash_of(std::initializer_list<std::uint64_t>{
    TUTTI_VERSION_MAJOR, TUTTI_VERSION_MINOR, sizeof(segment_header), sizeof(rank_page), offsetof(rank_page, called),
    offsetof(rank_page, vote), offsetof(rank_page, near), sizeof(channel), sizeof(slot), close_places, min_close_bytes,
    max_close_bytes, slots_of(2, 0), slots_of(2, 1), slots_of(2, slice_track), offsetof(leaving_record, text)});

// The memory that all ranks can read in place, and the address to which references to it are relative.
struct readable_memory {
  std::uintptr_t begin = 0, end = 0, origin = 0;
};

// Computes the addresses of a segment's parts. Parts that are never touched take no memory, because the mapping is
// sparse.
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
    return round_up(sizeof(channel) + slots_of(static_cast<int>(ranks_), track) * sizeof(slot) +
                    close_places * max_close_bytes);
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
