// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The concepts of a transport: first what every transport must provide, then optional capabilities, each with a concept of
// its own that enables an algorithm, a protocol or a call.
#pragma once

#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <source_location>
#include <string>
#include <string_view>
#include <vector>

#include "tutti/core/nodes.hpp"
#include "tutti/core/shape.hpp"
#include "tutti/core/wait.hpp"
#include "tutti/transport/arrival.hpp"
#include "tutti/transport/ballot.hpp"
#include "tutti/transport/notice_board.hpp"
#include "tutti/transport/segment.hpp"
#include "tutti/transport/store_gauge.hpp"
#include "tutti/transport/system/caches.hpp"

namespace tutti {

// ---- Required of every transport.

namespace detail {

// The data path, which an execution drives. A channel connects two ranks on one track, that is, one (lane, phase) of a
// schedule. Its messages arrive in order, and it holds at least two that were not received yet. Nothing blocks or throws.
template <class T>
concept carries_slices =
    requires(T t, T const c, int peer, int track, std::size_t bytes, bool more, std::uint32_t tag) {
      { T::slice_bytes } -> std::convertible_to<std::size_t>;  // the largest message
      { c.rank() } -> std::same_as<int>;
      { t.claim(peer, track, bytes, bytes) } noexcept -> std::same_as<std::byte*>;  // null while the channel is full
      { t.publish(peer, track, bytes, more, tag) } noexcept;
      { t.peek(peer, track, tag) } noexcept -> std::same_as<arrival>;
      { t.release(peer, track) } noexcept;
    };

}  // namespace detail

// The data path, and the state of peers: their calls, and whether they have ended. Only allocate may throw; nothing blocks.
template <class T>
concept transport =
    detail::carries_slices<T> && requires(T t, T const c, int peer, std::size_t bytes, std::byte* memory) {
      { T::name } -> std::convertible_to<std::string_view>;
      { c.ranks() } -> std::same_as<int>;
      { c.waits() } -> std::same_as<detail::patience>;
      { c.crowded() } -> std::same_as<bool>;  // more ranks than cores
      // Memory of communicator::allocate.
      { t.allocate(bytes) } -> std::same_as<std::byte*>;
      { t.deallocate(memory, bytes) } noexcept;
      // Waiting, and peers that have ended or left.
      { t.nap(detail::bool_function{}) } noexcept;
      { t.wake_all() } noexcept;
      { t.lost(peer) } noexcept -> std::same_as<bool>;  // its process has ended
      { t.left(peer) } noexcept -> std::same_as<bool>;  // it has closed its communicator
      { c.describe(peer) } -> std::same_as<std::string>;
      { t.leave() } noexcept;
      { t.notices() } -> detail::notice_board;
    };

// ---- Optional: how messages travel.

namespace detail {

// Ranks can read memory of their peers. Enables the protocols direct and pull: the receiver reads shared memory in place,
// and copies private memory of the sender through the kernel.
template <class T>
concept maps_memory = transport<T> && requires(T t, T const c, int peer, int track, std::size_t bytes, bool more,
                                               std::uint32_t tag, std::uint64_t count, std::uint64_t address,
                                               void const* data, std::byte* memory, std::byte const* theirs) {
  // Whether peers may still read it when its owner has given up. If not, notices() tells who is reading, as board does.
  { T::memory_outlives_owner } -> std::convertible_to<bool>;
  { c.is_shared(data, bytes) } noexcept -> std::same_as<bool>;
  { c.shared_address(data) } noexcept -> std::same_as<std::uint64_t>;  // valid at all ranks
  { c.at_shared_address(address) } noexcept -> std::same_as<std::byte const*>;
  { t.publish_reference(peer, track, data, true, bytes, more, tag) } noexcept;
  { t.published(peer, track) } noexcept -> std::same_as<std::uint64_t>;
  { t.consumed(peer, track, count) } noexcept -> std::same_as<bool>;
  { c.pulls() } -> std::same_as<bool>;  // the kernel lets every rank read every other
  { t.fetch(peer, memory, theirs, bytes) } noexcept -> std::same_as<int>;  // 0 or an errno
  { t.gauge() } noexcept -> std::same_as<store_gauge&>;                    // chooses how to store to slots
  // A hint: this rank, or a peer, is polling and sends at once whatever it is asked for.
  { t.set_responsive(true) } noexcept;
  { c.is_responsive(peer) } noexcept -> std::same_as<bool>;
};

// Ranks share cache lines in which a flag and data travel together. Enables the protocol packet; see execute/packet.hpp.
template <class T>
concept shares_packets =
    transport<T> && requires(T t, T const c, int peer, std::uint64_t round, bool far, bool wake, std::size_t lines) {
      { t.next_round() } noexcept -> std::same_as<std::uint64_t>;
      { c.packets(peer, round, far) } noexcept -> std::same_as<packet*>;
      { c.prefetch_packets(round, far, lines) } noexcept;
      { c.packets_known_read(round) } noexcept -> std::same_as<bool>;
      { c.readers_lag() } noexcept -> std::same_as<bool>;
      { t.packets_writable(round, far) } noexcept -> std::same_as<bool>;
      { t.packets_seen(peer, round) } noexcept;
      { t.packets_read(round, wake) } noexcept;
    };

// The ranks are threads of one process.
template <class T>
concept in_one_process = transport<T> && T::in_one_process;

// Messages of up to `eager_bytes` leave at once. A longer one waits for a rendezvous with its receiver.
template <class T>
concept has_eager_limit = transport<T> && requires {
  { T::eager_bytes } -> std::convertible_to<std::size_t>;
};

// A published message may need the sender to poll before it leaves; all_sent() says whether all have left.
template <class T>
concept needs_sender_progress = transport<T> && requires(T t) {
  { t.all_sent() } noexcept -> std::same_as<bool>;
};

// The same for messages that belong to no call, which no call waits for: whether the first `count` of a channel have left.
template <class T>
concept sends_outside_calls =
    needs_sender_progress<T> &&
    requires(T t, int peer, int track, std::size_t bytes, bool awaited, std::uint32_t tag, std::uint64_t count) {
      { t.publish_outside_calls(peer, track, bytes, awaited, tag) } noexcept;
      { t.published(peer, track) } noexcept -> std::same_as<std::uint64_t>;
      { t.has_left(peer, track, count) } noexcept -> std::same_as<bool>;
    };

// A receiver of many messages in a row can prefetch the next ones while it uses one, and their sender the places of later ones.
template <class T>
concept prefetches_messages = transport<T> && requires(T t, int peer, int track, std::size_t bytes) {
  { t.prefetch(peer, track) } noexcept;
  { t.prefetch_for_sending(peer, track, bytes) } noexcept;
  { t.claim_for_message(peer, track, bytes, bytes, true) } noexcept -> std::same_as<std::byte*>;
};

// The transport stores the lists of sources and destinations of a step (traffic::fan), because they are too large for a
// thread of a device. They have room for `max_ranks` peers.
template <class T>
concept stores_fan_lists = carries_slices<T> && requires(T const c) {
  { T::max_ranks } -> std::convertible_to<int>;
  { c.fan_lists() } -> std::same_as<void*>;
};
template <class T>
inline constexpr int max_peers = max_ranks;
template <stores_fan_lists T>
inline constexpr int max_peers<T> = T::max_ranks;

// Notices arrive only while this rank polls for them, or after it has asked its peers.
template <class T>
concept queries_peers = transport<T> && requires(T t) {
  { t.query_peers() } noexcept;
  { t.poll_notices() } noexcept;  // also tells peers which call this rank waits in
};

// Its ranks wait for each other when they leave, and then learn whether they have made the same calls.
template <class T>
concept compares_when_leaving = transport<T> && requires(T t, std::uint64_t hash_of_calls) {
  { t.differ_when_leaving(hash_of_calls) } noexcept -> std::same_as<bool>;
};

// Tells whether the process of a rank is stopped, by a signal or a debugger, so that a timeout can name it.
template <class T>
concept sees_stops = transport<T> && requires(T const c, int peer) {
  { c.stopped(peer) } noexcept -> std::same_as<bool>;
};

// ---- Optional: collectives.

// The library beneath has collectives of its own. Enables the algorithm `native`.
template <class T>
concept has_native_collectives = transport<T> && requires(T t) {
  typename T::native_collectives;
  { t.note_all_arrived() } noexcept;  // every rank has begun the current call
  // The result exists while this thread is inside the library.
  { t.enter_library("name", std::chrono::nanoseconds{}, std::source_location{}) } noexcept;
};

// These may accept device memory in place of host memory.
template <class T>
concept may_accept_device_memory = has_native_collectives<T> && requires(T const c) {
  { c.accepts_device_memory() } -> std::same_as<bool>;
};

// Each node has a transport of its own, and one rank of each node has another across nodes. Enables the algorithm `two_level`.
template <class T>
concept has_levels = transport<T> && requires(T t, T const c) {
  { t.take_inside() } -> std::same_as<std::unique_ptr<typename T::inside>>;
  { t.take_across() } -> std::same_as<std::unique_ptr<typename T::across>>;  // null at ranks that represent no node
  { c.nodes() } -> std::same_as<node_map const&>;
};

// ---- Optional: where ranks are.

// The node and the last-level cache of each rank, the same values at all ranks. Enables topology_of (call/topology.hpp).
template <class T>
concept knows_locations = transport<T> && requires(T const c) {
  { c.locations() } -> std::convertible_to<std::vector<location>>;
};

// Ranks may be on several machines: the number of ranks on this machine, this rank's index among them in rank order, and
// the first of them.
template <class T>
concept spans_machines = transport<T> && requires(T const c) {
  { c.local_rank() } noexcept -> std::same_as<int>;
  { c.local_ranks() } noexcept -> std::same_as<int>;
  { c.first_local_rank() } noexcept -> std::same_as<int>;
};

// Only some threads may call the transport, and none once it is closed; expect_thread() throws in any other.
template <class T>
concept bound_to_thread = transport<T> && requires(T const c) {
  c.expect_thread();
  { c.is_closed() } noexcept -> std::same_as<bool>;
  { c.allows_concurrent_threads() } noexcept -> std::same_as<bool>;  // while others call the library beneath
};
template <transport T>
bool is_closed(T const& t) noexcept {
  if constexpr (bound_to_thread<T>) return t.is_closed();
  else return false;
}
// Throws in a call that was in flight when the transport was closed.
template <transport T>
void expect_open(T const& t) {
  if constexpr (bound_to_thread<T>)
    if (t.is_closed()) t.expect_thread();
}

// ---- Optional: groups, and the loss of ranks.

// Makes an independent transport of some ranks, in the order listed. Only these ranks call it, each with the same list, which
// holds the caller and no rank twice. Returns when all of them have called. Throws error.
template <class T>
concept divisible = transport<T> && requires(T t, std::vector<int> const& members, countdown& until) {
  { t.subgroup(members, until) } -> std::same_as<std::unique_ptr<T>>;
};

// Ranks can agree although some of them end meanwhile. Enables agree and shrink; see transport/ballot.hpp.
template <class T>
concept ballot_box = requires(T t, int rank, std::uint64_t number, ballot::vote const& v, resolution const& r) {
  t.cast(number, v);
  { t.of(rank, number) } -> std::same_as<std::optional<ballot::vote>>;
  t.propose(number, r);
  { t.decision(number) } -> std::same_as<std::optional<resolution>>;
  { t.last_decided(number) } -> std::same_as<std::uint64_t>;
};
template <class T>
concept holds_votes = transport<T> && requires(T t) {
  { t.votes() } -> ballot_box;
};

// Ranks that are alive can be excluded, and learn of it. Enables shrink_options::exclude_after.
template <class T>
concept excludes_ranks = holds_votes<T> && requires(T t, T const c, int rank, std::vector<int> const& gone) {
  { t.exclude(gone) } noexcept;
  { c.excluded(rank) } noexcept -> std::same_as<bool>;
  {
    c.marked_as_excluded(rank)
  } noexcept -> std::same_as<bool>;  // once this rank is excluded: true of every excluded rank
};

// Whether it survives the loss of a rank is known only at run time. shrink() then needs all survivors.
template <class T>
concept may_survive =
    holds_votes<T> && requires(T t, T const c, std::vector<int> const& members, bool others_live, countdown& until) {
      { c.survives() } noexcept -> std::same_as<bool>;
      { t.shrink(members, others_live, until) } -> std::same_as<std::unique_ptr<T>>;
    };

// Whether ranks can agree and shrink.
template <transport Transport>
bool can_shrink(Transport const& ranks) noexcept {
  if constexpr (has_levels<Transport>)
    if (ranks.nodes().count() == 1) return true;
  if constexpr (may_survive<Transport>) return ranks.ranks() <= max_ranks && ranks.survives();
  else return holds_votes<Transport>;
}

// Can end the processes of all ranks.
template <class T>
concept ends_job = transport<T> && requires(T t, int code) {
  { t.end_job(code) } noexcept;
};

}  // namespace detail

}  // namespace tutti
