// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Windows for kernels of the program: memory of every rank that the kernels of all ranks read and write, and by which their
// blocks signal each other, meet, and exchange packets.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "tutti/core/config.hpp"
#include "tutti/core/shape.hpp"
#include "tutti/device/api/bounded_wait.hpp"
#include "tutti/device/api/window_map.hpp"
#include "tutti/device/channel/flagged_packet.hpp"
#include "tutti/device/kernel/jobs.hpp"
#include "tutti/device/model/device.hpp"
#include "tutti/device/model/flags.hpp"
#include "tutti/device/model/kernel_report.hpp"
#include "tutti/reduce/types.hpp"

namespace tutti {

namespace detail {

// A block whose members can vote.
template <class Group>
concept voting_group = block_group<Group> && requires(Group const group, bool vote) {
  {
    group.any(vote)
  } -> std::same_as<bool>;  // sync, and whether any member has passed true; all members call it at once
};

}  // namespace detail

struct this_block;  // of a kernel: api/kernels.cuh

// A window as one rank sees it: `size()` elements T of each of `ranks()` ranks, on devices that reach each other's memory. The host
// makes it (open_window) and passes it to kernels by value. Kernels take it as `__grid_constant__ tutti::window<T> const`, because a
// copy in the memory of each thread would be slow.
//
//   of(peer)   the elements of a rank, which any thread may load and store at any time. Nothing orders these accesses with those of
//              other ranks except for the calls of window_block. Atomic updates must have the scope of the system (atomicAdd_system,
//              cuda::atomic_ref with thread_scope_system). Those of another GPU's elements also need a link with native atomics:
//              NVLink has them, PCIe may not (cudaDeviceGetP2PAttribute with cudaDevP2PAttrNativeAtomicSupported tells)
template <element T>
class window {
 public:
  TUTTI_HOST_DEVICE window(detail::window_map const& map, int rank, std::size_t size)
      : map_(map), rank_(rank), size_(size) {}

  TUTTI_HOST_DEVICE int rank() const { return rank_; }
  TUTTI_HOST_DEVICE int ranks() const { return map_.ranks; }
  TUTTI_HOST_DEVICE std::size_t size() const { return size_; }
  TUTTI_HOST_DEVICE T* local() const { return of(rank_); }
  TUTTI_HOST_DEVICE T* of(int peer) const { return reinterpret_cast<T*>(map_.data(peer)); }

  // -- For window_block.
  TUTTI_HOST_DEVICE detail::window_map const& map() const { return map_; }

 private:
  detail::window_map map_;
  int rank_;
  std::size_t size_;
};

// A block of a rank at a window. All threads of the block make each call together, with the same arguments, and find the same
// result. Block b of a rank communicates with block b of the other ranks.
//
//   put, get      copy between memory of this rank and a window, by all threads of the block, 16 bytes at once if both places are
//                 equal modulo 16. Both begin with a barrier of the block, so its threads may have written what is copied. After a
//                 get, all threads of the block see the elements. A put is complete at the peer when the peer's block has got a
//                 later signal, or has left a later barrier. Its source may be overwritten after this block's next put, get, signal
//                 or barrier
//   signal, wait  the n-th wait for a peer ends once that peer has signalled this rank n times. What the peer's block did before the
//                 signal, to any memory, this block sees after the wait (release and acquire at the scope of the system). A signal is
//                 a store of 8 bytes to the peer; a wait polls memory of this rank
//   barrier       ends once all ranks have come: a signal to and from every other rank, apart from those of the program
//   exchange      `count` values of up to 8 bytes for each rank, and from each rank, in a store of 16 bytes each: the flag travels
//                 with the data, so this takes the time of one store. It orders no other memory
//
// Counters continue from launch to launch, so nothing is reset, and captured graphs may be replayed. Therefore each launch of a
// rank's kernel must signal as often as its peers wait, launches that use one window must be on one stream or otherwise ordered,
// and at most one block of a rank at a time may have an index.
//
// Who waits for another rank needs it to run: all blocks of a rank that wait must be resident, as those of one block per rank and of
// a cooperative launch are (launch_together), and ranks of several processes must have a device each. A wait ends when all ranks give
// up, or after the timeout of the window. It then returns false, and the block should return; until then its calls do nothing. Later
// launches give up too, and the host's window.wait(stream) throws an error that names the rank that did not come, or one that itself
// waited for another. Arguments that the window does not allow (a rank, a block, a count) end the same way.
//
//   template <class T>
//   __global__ void send_to_next(__grid_constant__ tutti::window<T> const shared, T const* from, std::size_t n) {
//     tutti::window_block here(shared);
//     int const next = (here.rank() + 1) % here.ranks(), before = (here.rank() + here.ranks() - 1) % here.ranks();
//     here.put(next, 0, from, n);
//     here.signal(next);
//     if (!here.wait(before)) return;
//     // shared.local() has the data of the rank before
//   }
template <element T, detail::voting_group Group = this_block>
class window_block {
 public:
  // The block with the group's index, of the window's own rank.
  TUTTI_HOST_DEVICE explicit window_block(window<T> const& of, Group const& group = Group())
      : window_block(of, of.rank(), group.block(), group) {}
  // Block `block` of a virtual rank, for a launch that has blocks of several.
  TUTTI_HOST_DEVICE window_block(window<T> const& of, int rank, int block, Group const& group = Group())
      : window_(of), map_(of.map()), group_(group), rank_(rank), block_(block) {
    if (!exists(rank)) refuse(detail::kernel_report::no_peer, rank, 0);
    else if (block < 0 || block >= map_.blocks) refuse(detail::kernel_report::no_block, block, rank);
  }
  window_block(window_block const&) = delete;
  window_block& operator=(window_block const&) = delete;

  TUTTI_HOST_DEVICE int rank() const { return rank_; }
  TUTTI_HOST_DEVICE int ranks() const { return map_.ranks; }
  TUTTI_HOST_DEVICE int block() const { return block_; }
  TUTTI_HOST_DEVICE T* local() const { return window_.of(rank_); }
  TUTTI_HOST_DEVICE T* of(int peer) const { return window_.of(peer); }
  // Whether this block has given up.
  TUTTI_HOST_DEVICE bool stopped() const { return stopped_; }

  // `count` elements from `from` to those from `at` on in the window of a rank.
  TUTTI_HOST_DEVICE void put(int peer, std::size_t at, T const* from, std::size_t count) {
    if (!may_access(peer, at, count)) return;
    group_.sync();
    detail::move_elements(all(), from, of(peer) + at, count);
  }
  TUTTI_HOST_DEVICE void get(int peer, std::size_t at, T* to, std::size_t count) {
    if (!may_access(peer, at, count)) return;
    group_.sync();
    detail::move_elements(all(), static_cast<T const*>(of(peer) + at), to, count);
    group_.sync();
  }

  TUTTI_HOST_DEVICE void signal(int peer) {
    if (!may_call(peer)) return;
    group_.sync();
    if (group_.rank() == 0) send_signal(detail::window_map::signals, peer);
  }
  [[nodiscard]] TUTTI_HOST_DEVICE bool wait(int peer) {
    if (!may_call(peer)) return false;
    return all_agree(group_.rank() != 0 || receive_signal(detail::window_map::signals, peer));
  }
  [[nodiscard]] TUTTI_HOST_DEVICE bool barrier() {
    if (stopped_) return false;
    group_.sync();
    for (int k = group_.rank() + 1; k < ranks(); k += group_.size())
      send_signal(detail::window_map::barriers, tutti::wrap(rank_ + k, ranks()));
    bool came = true;
    for (int k = group_.rank() + 1; k < ranks(); k += group_.size())
      came = receive_signal(detail::window_map::barriers, tutti::wrap(rank_ + k, ranks())) && came;
    return all_agree(came);
  }

  // One round. Thread i % size of the block calls give(peer, i), the value for a peer, and then take(rank, i, value) for all ranks
  // in order, its own too, for each i below `count`, which may differ from round to round, but not between ranks. So a sum that
  // `take` forms has the same bits on all ranks. After the call, all threads of the block see what `take` has stored. If a value
  // does not come, its thread calls `take` no more.
  //
  //   float sum = 0;     // of values[i], of all ranks
  //   if (!here.exchange(n, [&](int, int i) { return values[i]; },
  //                      [&](int rank, int i, float x) {
  //                        sum = rank == 0 ? x : sum + x;
  //                        if (rank == here.ranks() - 1) sums[i] = sum;
  //                      })) return;
  template <class Give, class Take>
  [[nodiscard]] TUTTI_HOST_DEVICE bool exchange(int count, Give const& give, Take const& take) {
    using value = std::remove_cvref_t<decltype(give(0, 0))>;
    static_assert(std::is_trivially_copyable_v<value> && sizeof(value) <= 8, "a packet has room for 8 bytes");
    if (count < 0 || count > map_.packets) refuse(detail::kernel_report::no_packets, count, rank_);
    if (stopped_) return false;
    if (count == 0) return true;
    std::uint64_t& rounds = map_.rounds(rank_, block_);
    std::uint64_t const round = rounds + 1;
    detail::packet_mark const mark(round);
    for (int i = group_.rank(); i < count; i += group_.size())
      for (int k = 1; k < ranks(); ++k) {
        int const peer = tutti::wrap(rank_ + k, ranks());
        detail::store_pair(map_.inbox(peer, rank_, block_, round)[i], to_packet(give(peer, i), mark));
      }
    bool came = true;
    for (int i = group_.rank(); i < count && came; i += group_.size())
      for (int peer = 0; peer < ranks() && came; ++peer) {
        if (peer == rank_) {
          take(peer, i, give(peer, i));
          continue;
        }
        detail::word_pair found;
        came = receive(found, map_.inbox(rank_, peer, block_, round)[i], peer, mark);
        if (came) take(peer, i, from_packet<value>(found));
      }
    if (!all_agree(came)) return false;
    if (group_.rank() == 0) rounds = round;
    group_.sync();
    return true;
  }

 private:
  // -- Signals: `theirs` counts those that were sent, `own` those that were awaited. One thread calls these for a channel.
  TUTTI_HOST_DEVICE void send_signal(detail::window_map::tracks track, int peer) const {
    std::uint64_t& sent = map_.outgoing(rank_, track, block_, peer).own;
    detail::store_release<detail::flag_scope::system>(map_.incoming(peer, track, block_, rank_).theirs, ++sent);
  }
  TUTTI_HOST_DEVICE bool receive_signal(detail::window_map::tracks track, int peer) const {
    detail::channel_end& end = map_.incoming(rank_, track, block_, peer);
    std::uint64_t const before = end.own;
    bool const given_up = has_given_up();
    detail::bounded_wait wait(map_, rank_, peer);
    while (detail::load_acquire<detail::flag_scope::system>(end.theirs) == before)
      if (given_up || !wait.keep_polling()) return false;
    end.own = before + 1;
    return !given_up;
  }

  // -- Packets. An inbox is written again two rounds later: by then its reader has sent the packets of the round between, which it
  // does once all of its threads have read those of the first.
  template <class V>
  TUTTI_HOST_DEVICE static detail::word_pair to_packet(V const& x, detail::packet_mark const& mark) {
    std::uint32_t data[2]{};
    std::memcpy(data, &x, sizeof x);
    return mark.on(data[0], data[1]);
  }
  template <class V>
  TUTTI_HOST_DEVICE static V from_packet(detail::word_pair const& packet) {
    std::uint32_t const data[2]{static_cast<std::uint32_t>(packet.of[0]), static_cast<std::uint32_t>(packet.of[1])};
    V out;
    std::memcpy(static_cast<void*>(&out), data, sizeof out);
    return out;
  }
  TUTTI_HOST_DEVICE bool receive(detail::word_pair& found, detail::word_pair const& from, int peer,
                                 detail::packet_mark const& mark) const {
    bool const given_up = has_given_up();
    detail::bounded_wait wait(map_, rank_, peer);
    for (found = detail::load_pair(from); !mark.is_on(found); found = detail::load_pair(from))
      if (given_up || !wait.keep_polling()) return false;
    return !given_up;
  }

  // -- Giving up.

  // Read before the first poll, so that the one does not wait for the other.
  TUTTI_HOST_DEVICE bool has_given_up() const { return detail::load_host_word(map_.stopped(rank_)) != 0; }
  // Whether all threads were successful; if not, this rank has given up.
  TUTTI_HOST_DEVICE bool all_agree(bool good) {
    stopped_ = group_.any(!good);
    if (stopped_ && group_.rank() == 0) detail::store_host_word(map_.stopped(rank_), 1);
    return !stopped_;
  }
  TUTTI_HOST_DEVICE void refuse(detail::kernel_report::kinds kind, int amount, int peer) {
    if (group_.rank() == 0 && !stopped_) {
      detail::report_first(map_, {kind, rank_, peer, static_cast<std::uint32_t>(amount)});
      if (exists(rank_)) detail::store_host_word(map_.stopped(rank_), 1);
    }
    stopped_ = true;
  }
  TUTTI_HOST_DEVICE bool exists(int rank) const { return rank >= 0 && rank < ranks(); }
  TUTTI_HOST_DEVICE bool may_call(int peer) {
    if (!exists(peer)) refuse(detail::kernel_report::no_peer, peer, rank_);
    return !stopped_;
  }
  TUTTI_HOST_DEVICE bool may_access(int peer, std::size_t at, std::size_t count) {
    if (!may_call(peer)) return false;
    if (at > window_.size() || count > window_.size() - at) refuse(detail::kernel_report::no_room, 0, peer);
    return !stopped_;
  }

  TUTTI_HOST_DEVICE detail::team all() const { return detail::all_of(group_); }

  window<T> const& window_;
  detail::window_map const& map_;
  Group group_;
  int rank_, block_;
  bool stopped_ = false;
};

}  // namespace tutti
