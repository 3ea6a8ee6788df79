// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The cost model: predicts the time of an algorithm from its schedule if there is no measurement.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "tutti/analyze/critical_path.hpp"
#include "tutti/execute/plan.hpp"
#include "tutti/tune/table.hpp"

namespace tutti::detail {

// What a core does to memory that ranks share, in chunks: of each kind, the most that one rank has to do. A byte counts once
// where it is read and once where it is written, and a reduction reads all sources in one pass.
struct core_work {
  std::uint64_t staged = 0;    // read and written if messages pass through slots
  std::uint64_t in_place = 0;  // the same if receivers read messages in the sender's memory
  std::uint64_t combined = 0;  // combined with others
  std::uint64_t fetched = 0;   // copied by the kernel out of the sender's private memory
  std::uint64_t besides = 0;   // read and written if messages are fetched, without `fetched`
  std::uint64_t served = 0;    // of this rank's memory, read by others
};

// The effort of one slice through the whole schedule, and of each further slice if slices stream.
struct estimated_work {
  analyze::effort first, further;
  core_work core;
  std::uint64_t chunks = 1;  // of the message in all lanes; of one block if chunks are blocks
  bool streams = false;
};

// Larger communicators use the work of this many ranks: the best algorithm no longer changes with their number, and the
// search takes time that grows with its square.
inline constexpr int max_estimated_ranks = 32;

[[gnu::cold]] estimated_work work_of(dynamic_schedule const& schedule, collective what, int ranks,
                                     analyze::node_sizes nodes = {});

// Estimates larger messages as this size. The best algorithm no longer changes above it, and the sums fit a word.
inline constexpr std::size_t max_estimated_bytes = std::size_t{1} << 32;
inline constexpr std::uint64_t streamed_slice = slot_bytes;

// What a further message costs its sender over a link of this latency.
constexpr std::uint64_t further_message(std::uint64_t latency) { return latency / 4; }

// In picoseconds. `far`: the cost of a message between nodes.
constexpr std::uint64_t time_of(analyze::effort const& e, std::uint64_t chunk_bytes, costs const& c, link_time far) {
  std::uint64_t const far_message = std::max(further_message(far.latency), c.message) - c.message;
  return e.hops * c.hop + e.far_hops * far.latency + e.messages * c.message + e.far_messages * far_message +
         (e.sent * c.sent + e.far_sent * far.byte + e.combined * c.combined) * chunk_bytes / 1000;
}
[[gnu::cold]] constexpr std::uint64_t time_of(estimated_work const& w, std::size_t bytes, costs const& c,
                                              link_time far = {}) {
  std::uint64_t const chunk = (std::min(bytes, max_estimated_bytes) + w.chunks - 1) / w.chunks;
  if (!w.streams || chunk <= streamed_slice) return time_of(w.first, chunk, c, far);
  std::uint64_t const slices = (chunk + streamed_slice - 1) / streamed_slice;
  return time_of(w.first, streamed_slice, c, far) + (slices - 1) * time_of(w.further, streamed_slice, c, far);
}

// The model does not choose protocol pull for smaller messages.
inline constexpr std::size_t min_pull_bytes = 64 * 1024;
// The cost of a fetch (process_vm_readv) and of a byte of it. The kernel pins every page, which limits it to 5 to 10 GB/s.
inline constexpr link_time assumed_fetch{1'000'000, 100'000};
// So many ranks can read one rank's memory without slowing each other down. More contend for its caches, and fetches for its page
// table. (Chakraborty, Subramoni, Panda, "Contention-aware kernel-assisted MPI collectives for multi-/many-core systems", 2017.)
inline constexpr std::uint64_t undisturbed_readers = 8;

// The time of a call through shared memory, by protocol packet, staged, direct or pull. What each core reads and writes limits long
// messages. `sent` is the cost of a byte that passes through a slot: its sender reads and writes it, and so does its receiver. A packet
// takes half the time of a slot, because flag and data share a line, and its sender writes it once, whatever the number of receivers.
[[gnu::cold]] std::uint64_t time_in_memory(estimated_work const& w, problem const& p, costs const& c, protocol how);

// Whether packets carry a call through shared memory if it names no protocol.
inline bool is_packet(algorithm_id id, problem const& p) {
  return id == algorithm_id::one_shot && !p.ragged && p.bytes <= longest_shared_packet(p.what, p.ranks) &&
         !is_faster_in_one_piece(p.what, p.ranks, p.bytes);
}

// Ranks do not know which kind of memory their peers use, so the time is the mean for private memory and for memory that peers read in
// place. `how`: pull if that is the fastest way to move private memory.
struct memory_estimate {
  protocol how = protocol::automatic;
  std::uint64_t picoseconds = 0;
};
[[gnu::cold]] memory_estimate estimate_in_memory(algorithm_id id, estimated_work const& w, problem const& p,
                                                 costs const& c);

// Reduces a problem to the number of ranks and nodes that work_of can still search, in one level and in two.
constexpr problem in_small(problem p) {
  int const each = std::clamp((p.ranks + p.node_count - 1) / p.node_count, 1, max_estimated_ranks / 2);
  std::int64_t const largest = std::int64_t{p.largest_node} * p.node_count * each / p.ranks;
  p.node_count = std::min(p.node_count, max_estimated_ranks / each);
  p.ranks = each * p.node_count;
  // Still the largest, and every other node has a rank.
  if (p.largest_node > 0)
    p.largest_node =
        static_cast<int>(std::min<std::int64_t>(std::max<std::int64_t>(largest, each), p.ranks - p.node_count + 1));
  return p;
}

}  // namespace tutti::detail

#if !defined(TUTTI_COMPILED)
#include "tutti/tune/estimate_impl.hpp"
#endif
