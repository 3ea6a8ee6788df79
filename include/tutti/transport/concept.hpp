// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What a transport is: views of memory on their way between ranks, and news of peers.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "tutti/core/wait.hpp"
#include "tutti/transport/mailbox.hpp"

namespace tutti {

// Channels are numbered by track: a (lane, phase) of a schedule. Messages of a channel arrive in order, and it
// holds two or more that were not received. Nothing here blocks or throws but allocate.
template <class T>
concept transport = requires(T t, T const c, int peer, int track, std::size_t bytes, bool more, std::uint32_t tag,
                             std::uint64_t count, void const* data, std::byte* memory, std::byte const* theirs) {
  { T::name } -> std::convertible_to<std::string_view>;
  { c.rank() } -> std::same_as<int>;
  { c.ranks() } -> std::same_as<int>;
  { c.waits() } -> std::same_as<patience>;
  { c.crowded() } -> std::same_as<bool>;  // more ranks than cores
  // mailbox: staged slices
  { t.claim(peer, track, bytes, bytes) } noexcept -> std::same_as<std::byte*>;
  { t.publish(peer, track, bytes, more, tag) } noexcept;
  { t.look(peer, track, tag) } noexcept -> std::same_as<arrival>;
  { t.release(peer, track) } noexcept;
  { t.gauge() } noexcept -> std::same_as<store_gauge&>;
  // mapped: direct reads
  { c.reaches(data, bytes) } noexcept -> std::same_as<bool>;
  { t.refer(peer, track, data, bytes, more, tag) } noexcept;
  { t.published(peer, track) } noexcept -> std::same_as<std::uint64_t>;
  { t.consumed(peer, track, count) } noexcept -> std::same_as<bool>;
  { T::memory_stays } -> std::convertible_to<bool>;  // what peers read stays readable when its owner has given up
  { t.allocate(bytes) } -> std::same_as<std::byte*>;
  { t.deallocate(memory, bytes) } noexcept;
  // private memory that the receiver fetches
  { c.pulls() } -> std::same_as<bool>;
  { t.refer_foreign(peer, track, data, bytes, more, tag) } noexcept;
  { t.fetch(peer, memory, theirs, bytes) } noexcept -> std::same_as<int>;  // 0 or an errno
  // packets
  { t.next_turn() } noexcept -> std::same_as<std::uint64_t>;
  { c.packets(peer, count, more) } noexcept -> std::same_as<packet*>;
  { t.packets_free(count, more) } noexcept -> std::same_as<bool>;
  { t.packets_seen(peer, count) } noexcept;
  { t.packets_read(count, more) } noexcept;
  // waiting, and peers that are gone
  {
    t.nap([] { return true; })
  } noexcept;
  { t.lost(peer) } noexcept -> std::same_as<bool>;
  { t.leave() } noexcept;
  { c.memory() } noexcept -> std::same_as<segment const&>;
};

// Makes a transport of some of its ranks, in the order listed, which lives on its own. Called by these ranks alone, each
// with the same list, this rank in it and none twice; returns when all of them have. Throws error.
template <class T>
concept divisible = transport<T> && requires(T t, std::vector<int> const& members, deadline until) {
  { t.subgroup(members, until) } -> std::same_as<std::unique_ptr<T>>;
};

}  // namespace tutti
