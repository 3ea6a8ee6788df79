// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The plan of a call: its algorithm, its protocol, and the number by which ranks recognise the same call.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <source_location>
#include <string_view>

#include "tutti/algorithm/registry.hpp"
#include "tutti/core/enum_text.hpp"
#include "tutti/transport/cache_lines.hpp"
#include "tutti/transport/segment.hpp"

namespace tutti {

// How bytes travel. Schedules never see it.
enum class protocol : std::uint8_t {
  automatic,
  packet,  // small messages: flag and data in one cache line
  staged,  // slices through the transport's own buffers
  direct,  // peers read each other's memory: buffers from comm.allocate over shm, any memory over loopback
  pull,    // as direct, but the receiver copies out of private memory through the kernel (process_vm_readv)
};

namespace detail {
inline constexpr char const* protocol_names[]{"automatic", "packet", "staged", "direct", "pull"};
}

[[gnu::cold]] constexpr std::string_view name(protocol p) {
  return detail::text_of<protocol::pull>(p, detail::protocol_names, "that does not exist");
}

namespace detail {

struct request;

// An algorithm that is not in the registry. Its caller names it by its type, and it has no algorithm_id.
struct unlisted_algorithm {
  std::string_view name;
  std::uint32_t id = 0;  // type_id
  dynamic_schedule schedule;
  // Refuses a call in which a step of this rank would crash. A pointer, so that only programs with such algorithms contain the check;
  // null if the schedule is one of the library's, which are verified.
  void (*expect_safe)(request const& r, int rank, int ranks, std::source_location where) = nullptr;

  bool verified() const noexcept { return expect_safe == nullptr; }
};

// The part of a call that all ranks must agree on, and that decides the algorithm. Equal on all ranks in a correct
// call.
struct request {
  collective what{};
  algorithm_id algorithm = algorithm_id::automatic;
  protocol how = protocol::automatic;
  bool commutative = true;
  bool ragged = false;    // a _v form
  bool prepares = false;  // the operation has a prologue
  // The operation combines in a wider type than that of the elements; all contributions to an element in one place. Two bits of a
  // byte, so that the members up to `started` fill one word.
  bool wide : 1 = false;
  bool at_once : 1 = false;
  bool started = false;  // it must not wait inside
  std::int32_t root = 0;
  std::uint32_t type = 0;   // type_id
  std::uint32_t op = 0;     // type_id; 0 where there is none
  std::uint32_t sizes = 0;  // hash of the counts of a _v form that all ranks know, or of the arrays in one
  std::uint64_t element_bytes = 1;
  std::uint64_t count = 0;  // elements of the message; of one block where chunks are blocks; 0 where ranks may differ
  unlisted_algorithm const* unlisted = nullptr;  // then `algorithm` is automatic

  friend bool operator==(request const&, request const&) = default;

  constexpr std::size_t bytes() const { return count * element_bytes; }
};

// The longest message or block that packets carry through shared memory.
constexpr std::size_t longest_shared_packet(collective c, int ranks) {
  return max_packet_bytes / static_cast<std::size_t>(deals(c) ? ranks : 1);
}
// Whether a message that packets could carry through shared memory is faster in one piece. A broadcast of 2 KiB between 2 ranks takes
// 0.18 us then, and 0.4 in packets, whose reader checks the flag of every line (Zen 4, back to back). On a mesh, this holds for every
// collective: 2 KiB take 0.7 of the time in the mean of six, because packets have few places, which are written again right after they
// have been read (Emerald Rapids). Ranks that share memory run on one kind of processor, so they agree.
inline bool is_faster_in_one_piece(collective c, int ranks, std::size_t bytes) {
  return ranks == 2 && (c == collective::broadcast || on_mesh) && (deals(c) ? 2 * bytes : bytes) >= min_close_bytes;
}

// Fetched slices are larger than slots, because each costs a system call of half a microsecond. All slices that are combined at once
// fit a second-level cache; those that are only moved need not, and are larger: 2 and 8 MiB by gather take 0.9 of the time.
constexpr std::size_t fetched_slice(int ranks, bool combined) {
  std::size_t const share =
      (std::size_t{combined ? 256u : 1024u} << 10) / static_cast<std::size_t>(ranks > 1 ? ranks - 1 : 1);
  return share < slot_bytes ? slot_bytes : std::bit_floor(share);
}

struct plan {
  algorithm_id algorithm{};
  protocol how{};
  std::uint32_t fingerprint = 0;
  std::string_view why{};
  std::array<std::uint64_t, call_record::words> words{};  // for the notice board
};

// A hash in which every bit of every word counts (the mixer of splitmix64).
constexpr std::uint64_t mix(std::uint64_t hash, std::uint64_t word) {
  hash = (hash ^ word) + 0x9e3779b97f4a7c15u;
  hash = (hash ^ (hash >> 30)) * 0xbf58476d1ce4e5b9u;
  hash = (hash ^ (hash >> 27)) * 0x94d049bb133111ebu;
  return hash ^ (hash >> 31);
}

// That of request::sizes.
template <class Sizes>
constexpr std::uint32_t hash_of_sizes(Sizes const& sizes) {
  std::uint64_t hash = 0;
  for (std::size_t const n : sizes) hash = mix(hash, n);
  return static_cast<std::uint32_t>(hash);
}

// Nothing has been mixed when the first two words meet, so the count meets ids, which are hashes. If it met the collective, a reduce of
// 5 elements would have the key of an all_reduce of 4.
constexpr std::uint64_t key_of(request const& r) {
  std::uint64_t hash = mix(r.type | static_cast<std::uint64_t>(r.op) << 32, r.count);
  hash = mix(hash, static_cast<std::uint64_t>(r.what) | static_cast<std::uint64_t>(r.algorithm) << 8 |
                       static_cast<std::uint64_t>(r.how) << 16 | static_cast<std::uint64_t>(r.ragged) << 24 |
                       static_cast<std::uint64_t>(static_cast<std::uint32_t>(r.root)) << 32);
  if (r.unlisted != nullptr) hash = mix(hash, r.unlisted->id);
  return mix(hash, r.sizes | static_cast<std::uint64_t>(r.element_bytes) << 32);
}

// Remembers the plans of recent requests, so that repeating a call costs one comparison.
class plan_cache {
 public:
  // The plan for a request, made by `make` where it is not known.
  template <class Make>
  plan const& find(request const& r, Make&& make) {
    entry& e = entries_[place_of(r)];
    if (!e.used || e.key != r) {
      e.value = make();
      e.key = r;
      e.used = true;
    }
    return e.value;
  }

 private:
  struct entry {
    request key{};
    plan value{};
    bool used = false;
  };
  // The product's high bits depend on all bits of the word. Requests that share a place only cost time.
  static std::size_t place_of(request const& r) {
    std::uint64_t const word = r.count ^ static_cast<std::uint64_t>(r.type ^ r.op ^ r.sizes) << 32 ^
                               static_cast<std::uint64_t>(r.what) << 24 ^ std::uint64_t{r.started} << 40 ^
                               static_cast<std::uint64_t>(r.root) << 48;
    return (word * 0x9e3779b97f4a7c15u) >> 58;
  }

  std::array<entry, 64> entries_{};
};

}  // namespace detail

}  // namespace tutti
