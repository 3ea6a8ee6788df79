// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What a transport is: messages between ranks and news of peers; and what it can do beyond that.
#pragma once

#include <atomic>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tutti/core/shape.hpp"
#include "tutti/core/wait.hpp"
#include "tutti/transport/arrival.hpp"
#include "tutti/transport/ballot.hpp"
#include "tutti/transport/nodes.hpp"
#include "tutti/transport/notice.hpp"
#include "tutti/transport/segment.hpp"
#include "tutti/transport/store_gauge.hpp"
#include "tutti/transport/system/caches.hpp"

namespace tutti {

// A type, for nvcc finds no lambda in a requirement.
using bool_function = bool (*)();

// Where ranks write down what they call and find what the others do, and the first fault; see transport/board.hpp.
template <class T>
concept notice_board =
    requires(T t, T const c, int rank, std::uint64_t sequence, call_words const& call, std::uint64_t place,
             std::memory_order order, std::uint32_t id, std::string_view text, fault const& f, bool_function decided) {
      { t.begin(sequence, call, place, order) } noexcept;
      { t.finish(sequence) } noexcept;
      { c.called(rank) } noexcept -> std::same_as<std::uint64_t>;
      { c.finished(rank) } noexcept -> std::same_as<std::uint64_t>;
      { c.find(rank, sequence) } -> std::same_as<std::optional<call_words>>;
      { t.await(call) } noexcept;
      { t.await_nothing() } noexcept;
      { c.awaited(rank) } noexcept -> std::same_as<std::optional<call_words>>;
      { t.introduce(id, text) } noexcept;
      { c.name(rank, id) } -> std::same_as<std::string>;
      { t.raise(f) } noexcept;
      { c.faulty() } noexcept -> std::same_as<bool>;
      { t.accept_fault(decided) } noexcept;
      { c.knows_fault(rank) } noexcept -> std::same_as<bool>;
      { c.find_fault() } -> std::same_as<std::optional<fault>>;
    };

// What an execution needs. Channels are numbered by track: a (lane, phase) of a schedule. Messages of a channel arrive in
// order, and it holds two or more that were not received. Nothing here blocks or throws.
template <class T>
concept carries_slices =
    requires(T t, T const c, int peer, int track, std::size_t bytes, bool more, std::uint32_t tag) {
      { T::slice_bytes } -> std::convertible_to<std::size_t>;  // the most of a message
      { c.rank() } -> std::same_as<int>;
      { t.claim(peer, track, bytes, bytes) } noexcept -> std::same_as<std::byte*>;
      { t.publish(peer, track, bytes, more, tag) } noexcept;
      { t.look(peer, track, tag) } noexcept -> std::same_as<arrival>;
      { t.release(peer, track) } noexcept;
    };

// Its ranks are few, and lists as long as that are kept where it says.
template <class T>
concept keeps_lists = carries_slices<T> && requires(T const c) {
  { T::most_ranks } -> std::convertible_to<int>;
  { c.lists() } -> std::same_as<void*>;
};
template <class T>
inline constexpr int most_peers = max_ranks;
template <keeps_lists T>
inline constexpr int most_peers<T> = T::most_ranks;

// Ranks that find each other, and learn of each other's calls and ends. Nothing here blocks or throws but allocate.
template <class T>
concept transport = carries_slices<T> && requires(T t, T const c, int peer, std::size_t bytes, std::byte* memory) {
  { T::name } -> std::convertible_to<std::string_view>;
  { c.ranks() } -> std::same_as<int>;
  { c.waits() } -> std::same_as<patience>;
  { c.crowded() } -> std::same_as<bool>;  // more ranks than cores
  // what communicator::allocate hands out
  { t.allocate(bytes) } -> std::same_as<std::byte*>;
  { t.deallocate(memory, bytes) } noexcept;
  // waiting, and peers that are gone
  { t.nap(bool_function{}) } noexcept;
  { t.ring_all() } noexcept;
  { t.lost(peer) } noexcept -> std::same_as<bool>;
  { t.left(peer) } noexcept -> std::same_as<bool>;
  { c.describe(peer) } -> std::same_as<std::string>;
  { t.leave() } noexcept;
  { t.notices() } -> notice_board;
};

// Ranks can read memory of their peers: direct reads, and private memory that the receiver fetches.
template <class T>
concept maps_memory = transport<T> && requires(T t, T const c, int peer, int track, std::size_t bytes, bool more,
                                               std::uint32_t tag, std::uint64_t count, std::uint64_t place,
                                               void const* data, std::byte* memory, std::byte const* theirs) {
  { T::memory_stays } -> std::convertible_to<bool>;  // what peers read stays readable when its owner has given up
  { c.reaches(data, bytes) } noexcept -> std::same_as<bool>;
  { c.place_of(data) } noexcept -> std::same_as<std::uint64_t>;  // the same for all ranks
  { c.at_place(place) } noexcept -> std::same_as<std::byte const*>;
  { t.refer(peer, track, data, bytes, more, tag) } noexcept;
  { t.published(peer, track) } noexcept -> std::same_as<std::uint64_t>;
  { t.consumed(peer, track, count) } noexcept -> std::same_as<bool>;
  { c.pulls() } -> std::same_as<bool>;
  { t.refer_foreign(peer, track, data, bytes, more, tag) } noexcept;
  { t.fetch(peer, memory, theirs, bytes) } noexcept -> std::same_as<int>;  // 0 or an errno
  { t.gauge() } noexcept -> std::same_as<store_gauge&>;                    // how copies to slots are done
  // A hint: whether this rank, and whether a peer, sends at once what it is asked for.
  { t.attend(true) } noexcept;
  { c.attends(peer) } noexcept -> std::same_as<bool>;
};

// Ranks show each other lines of cache; see execute/packet.hpp.
template <class T>
concept shows_packets = transport<T> && requires(T t, T const c, int peer, std::uint64_t turn, bool far, bool tell) {
  { t.next_turn() } noexcept -> std::same_as<std::uint64_t>;
  { c.packets(peer, turn, far) } noexcept -> std::same_as<packet*>;
  { t.packets_free(turn, far) } noexcept -> std::same_as<bool>;
  { t.packets_seen(peer, turn) } noexcept;
  { t.packets_read(turn, tell) } noexcept;
};

// A message may need the sender's help after it was published: whether all have left.
template <class T>
concept sends_later = transport<T> && requires(T t) {
  { t.all_sent() } noexcept -> std::same_as<bool>;
};

// The same for messages that belong to no call, so no call waits for them: whether the first of a channel have left.
template <class T>
concept sends_beside_calls = sends_later<T> && requires(T t, int peer, int track, std::size_t bytes, bool awaited,
                                                        std::uint32_t tag, std::uint64_t count) {
  { t.publish_beside_calls(peer, track, bytes, awaited, tag) } noexcept;
  { t.published(peer, track) } noexcept -> std::same_as<std::uint64_t>;
  { t.has_left(peer, track, count) } noexcept -> std::same_as<bool>;
};

// Messages of at most so many bytes leave at once; longer ones until their receiver was asked, which takes a while.
template <class T>
concept sends_at_once = transport<T> && requires {
  { T::eager_bytes } -> std::convertible_to<std::size_t>;
};

// Whoever takes many messages in a row can have the next ones come while it uses one.
template <class T>
concept looks_ahead = transport<T> && requires(T t, int peer, int track) {
  { t.look_ahead(peer, track) } noexcept;
};

// News of peers comes when this rank listens, and when it has asked.
template <class T>
concept asks_peers = transport<T> && requires(T t) {
  { t.ask_peers() } noexcept;
  { t.heed() } noexcept;  // listens, and tells peers what this rank waits in
};

// It has collectives of its own: the algorithm `native`.
template <class T>
concept has_library = transport<T> && requires(T t) {
  typename T::library;
  { t.all_have_come() } noexcept;  // to the running call
};

// That library may take memory of a device where it takes the host's.
template <class T>
concept may_take_device_memory = has_library<T> && requires(T const c) {
  { c.takes_device_memory() } -> std::same_as<bool>;
};

// Its ranks are on nodes, each with a transport of its own, and there is one across nodes for ranks that stand for theirs:
// the algorithm `two_level`.
template <class T>
concept has_levels = transport<T> && requires(T t, T const c) {
  { t.take_inside() } -> std::same_as<std::unique_ptr<typename T::inside>>;
  { t.take_across() } -> std::same_as<std::unique_ptr<typename T::across>>;  // null at ranks that stand for none
  { c.nodes() } -> std::same_as<node_map const&>;
};

// It knows on which node each of its ranks is, and by which cache; the same at all ranks.
template <class T>
concept knows_locations = transport<T> && requires(T const c) {
  { c.locations() } -> std::convertible_to<std::vector<location>>;
};

// Only some threads may call it; throws where this is another.
template <class T>
concept bound_to_thread = transport<T> && requires(T const c) {
  c.expect_thread();
  { c.threads_at_once() } noexcept -> std::same_as<bool>;  // while another calls the same library
};

// Its ranks may be on several machines: this one among those of its own machine, in rank order, and how many these are.
template <class T>
concept spans_machines = transport<T> && requires(T const c) {
  { c.local_rank() } noexcept -> std::same_as<int>;
  { c.local_ranks() } noexcept -> std::same_as<int>;
};

// How ranks agree though some of them end; see transport/ballot.hpp.
template <class T>
concept ballot_box = requires(T t, int rank, std::uint64_t number, ballot::vote const& v, resolution const& r) {
  t.cast(number, v);
  { t.of(rank, number) } -> std::same_as<std::optional<ballot::vote>>;
  t.propose(number, r);
  { t.decision(number) } -> std::same_as<std::optional<resolution>>;
  { t.last_decided() } -> std::same_as<std::uint64_t>;
};
template <class T>
concept holds_votes = transport<T> && requires(T t) {
  { t.votes() } -> ballot_box;
};

// Whether it lives on where ranks end, it knows when it runs. What is made of it then needs all ranks that are left.
template <class T>
concept may_survive =
    holds_votes<T> && requires(T t, T const c, std::vector<int> const& members, bool others_live, deadline until) {
      { c.survives() } noexcept -> std::same_as<bool>;
      { t.shrink(members, others_live, until) } -> std::same_as<std::unique_ptr<T>>;
    };

// It can end the processes of all its ranks.
template <class T>
concept ends_job = transport<T> && requires(T t, int code) {
  { t.end_job(code) } noexcept;
};

// Makes a transport of some of its ranks, in the order listed, which lives on its own. Called by these ranks alone, each
// with the same list, this rank in it and none twice; returns when all of them have. Throws error.
template <class T>
concept divisible = transport<T> && requires(T t, std::vector<int> const& members, deadline until) {
  { t.subgroup(members, until) } -> std::same_as<std::unique_ptr<T>>;
};

}  // namespace tutti
