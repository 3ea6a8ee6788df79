// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The protocol of tagged messages between two ranks: matching, eager messages, and rendezvous by reading, fetching or slices.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "tutti/core/wait.hpp"
#include "tutti/fault/transfer.hpp"
#include "tutti/message/failure.hpp"
#include "tutti/message/head.hpp"
#include "tutti/message/receiver.hpp"
#include "tutti/transport/concept.hpp"
#include "tutti/transport/segment.hpp"

namespace tutti::detail {

// Messages from one sender arrive in order. Each is matched on arrival with the first receive that accepts it; a new receive
// takes the first message that has arrived.
//
// A small message is eager: it leaves at once behind a head of 16 bytes, so that 32 bytes fit a cache line. If no receive
// matches it yet, the receiver keeps a copy, for which each sender has a limited credit. The head of any message in the
// other direction returns credit. A message that is larger, or for which the credit does not suffice, takes a rendezvous:
// the sender offers it, and once it is matched, the receiver
// - reads it in place, if it lies in memory that all ranks map;
// - lets its caller fetch it, if it lies in memory of a device, however small it is;
// - fetches it through the kernel, if the sender is not polling;
// - otherwise requests slices, which both ranks copy at the same time: 128 KiB take 3 us (12 through the kernel), 8 MiB
//   0.2 ms (1.4), on an AMD EPYC (Zen 5). If the sender stops polling, the receiver fetches the rest. Before a receiver
//   stops waiting, it receives slices until the sender has room for those that are missing.
//
// So memory stays bounded, except for an offer of 48 bytes per unfinished send, and earlier messages never keep a later one
// from being matched: no order of calls can block another.
template <transport Transport>
class messenger : message_receiver<Transport> {
 public:
  explicit messenger(Transport& transport) : message_receiver<Transport>(transport) {}
  messenger(messenger const&) = delete;
  messenger& operator=(messenger const&) = delete;

  // Returns whether a poll for it is not worthwhile. `looks`: a receive may look for its message in the channel.
  bool start(transfer& t, bool looks = true) {
    if (t.what == transfer::receive) return receive(t, looks);
    if (t.what == transfer::probe) this->probe(t);
    else if (t.peer == rank()) send_to_self(t);
    else this->start_send(t);
    return t.ended;
  }

  // Drops a probe that has found nothing.
  void withdraw(transfer& probe) { unmatched_.withdraw(probe); }

  // Ends a receive whose data its caller has fetched from a device.
  void end_fetched(transfer& r) { end_taken(r); }

  // `waits`: the caller keeps polling, and in the end calls stop_waiting() if must_stop_waiting().
  progress poll(bool waits = false) {
    moved_ = false;
    if constexpr (reads_peers)
      if (waits && !responsive_ && readable_ > 0) transport_.set_responsive(responsive_ = true);
    std::size_t const ended = ended_;
    move();
    // The caller is about to leave, or to continue after what has ended.
    if constexpr (reads_peers)
      if (sliced_.any_readable() && (!waits || ended_ != ended)) finish_slices();
    return moved_ ? progress::moved : progress::stuck;
  }
  bool must_stop_waiting() const noexcept { return responsive_ || sliced_.any_readable(); }
  void stop_waiting() {
    if constexpr (reads_peers) {
      finish_slices();
      if (responsive_) transport_.set_responsive(responsive_ = false);
    }
  }
  // How many transfers have ended since the last call.
  std::size_t take_ended_count() noexcept { return std::exchange(ended_, 0); }
  message_failure const& failure() const noexcept { return failure_; }
  kept_message const* find_unmatched(int from) { return unmatched_.find_unmatched(from); }
  // The name of a type that a peer has sent, or empty if unknown.
  std::string type_name(int peer_rank, std::uint32_t type) { return of(peer_rank).names[type]; }

  // The messages that no receive has matched, once this rank starts no more. Those that it has not seen arrive are found only in
  // mapped memory, because an MPI may have been finalised. Of a rank that this one has never sent to or received from, it sees messages
  // only if ranks are few: looking at a channel gives it memory.
  fifo<kept_message>& find_unreceived() {
    if constexpr (maps_memory<Transport>) {
      static constexpr int few = 16;
      for (int r = 0; r < transport_.ranks() && transport_.ranks() <= few; ++r) of(r);
      for (std::size_t i = 0; i < peers_.known().size(); ++i)
        if (int const from = peers_.known()[i]; from != rank())
          this->template drain<message_track>(from, [] { return true; });
    }
    return unmatched_.messages();
  }

  // Whether this rank has sent a message since it last received one.
  bool has_sent_last() const noexcept { return channels_.has_sent_last(); }

  // See message_channels.
  [[gnu::cold]] void skip(std::uint64_t count) {
    channels_.skip(count);
    ids_ = count;
  }

  // Drops all transfers and does not touch them again.
  void drop_all() noexcept {
    unmatched_.clear();
    sliced_.clear();
    channels_.reset();
    peers_.reset();
    failure_ = {};
    readable_ = 0;
    if constexpr (reads_peers)
      if (responsive_) transport_.set_responsive(responsive_ = false);
  }

 private:
  using receiver = message_receiver<Transport>;
  using receiver::copy_of, receiver::fetch_overdue;
  using receiver::drain, receiver::receive, receiver::keep, receiver::deliver, receiver::accept_offer,
      receiver::end_taken;
  using receiver::moved_, receiver::ended_;
  using receiver::rank, receiver::of, receiver::end, receiver::flush;
  using receiver::reads_peers, receiver::polls_if_responsive;
  using receiver::transport_, receiver::channels_, receiver::peers_, receiver::ids_, receiver::readable_;
  using receiver::unmatched_, receiver::sliced_, receiver::failure_;
  using typename receiver::kinds;

  // With all ranks, if one of them may send what a receive awaits; else with those that this rank has dealt with. These may become
  // more meanwhile.
  void move() {
    if (unmatched_.awaits_any()) move_with_all();
    else
      for (std::size_t i = 0; i < peers_.known().size(); ++i) move(peers_.known()[i]);
  }
  // Begins after the rank that was served last, so that a busy sender does not keep the others waiting.
  void move_with_all() {
    for (int i = 0, r = first_; i < transport_.ranks(); ++i) {
      bool const awaited = unmatched_.awaits_any();
      move(r);
      if (++r == transport_.ranks()) r = 0;
      if (awaited && !unmatched_.awaits_any()) first_ = r;
    }
  }
  void move(int with) {
    if (!of(with).idle()) flush(with);
    if (with != rank()) drain(with);
    if constexpr (reads_peers)
      if (sliced_.any_readable() && of(with).sliced.readable > 0) fetch_overdue(with);
  }
  // Whether a peer that was asked for slices may be blocked until this rank looks again: it has too little room for those that are
  // missing, or has not been asked yet. A receive that completed its slices whether or not there is room would make windows of messages
  // move one by one: 64 of 32 KiB took 1.5 times as long (Emerald Rapids).
  bool blocks_sender() {
    if (!sliced_.any_readable()) return false;
    std::size_t const room = slots_of(transport_.ranks(), receiver::track_of_slices);
    return std::ranges::any_of(peers_.known(), [&](int r) {
      auto const& p = of(r);
      return p.sliced.readable > 0 && (p.sliced.missing > room || !p.replies.empty());
    });
  }
  // Receives slices until none is blocked.
  void finish_slices() {
    bool any = moved_;
    for (int polls = 0; blocks_sender() && polls < 2 * polls_if_responsive && !failure_; ++polls) {
      pause_briefly();
      moved_ = false;
      move();
      if (moved_) any = true, polls = 0;
    }
    moved_ = any;
  }

  void send_to_self(transfer& t) {
    if (t.place != 0) return offer_to_self(t);
    bool const eager = channels_.fits_eagerly(rank(), t.bytes);
    message_head const front = this->head_of(t, kinds::eager);
    if (transfer* const r = unmatched_.take_receive(rank(), front.tag)) {
      deliver(*r, rank(), front, t.from);
      return end(t);
    }
    keep({rank(), front, eager ? copy_of(t.from, t.bytes) : nullptr, eager ? nullptr : &t});
    if (!eager) return;
    channels_.use_credit(rank(), t.bytes);
    end(t);
  }

  void offer_to_self(transfer& t) {
    t.id = ++ids_;
    message_head front = this->head_of(t, kinds::device_offer);
    front.address = t.place;
    of(rank()).offered.push_back(&t);
    ++of(rank()).awaited;
    if (transfer* const r = unmatched_.take_receive(rank(), front.tag)) accept_offer(*r, rank(), front);
    else keep({rank(), front, nullptr, nullptr});
  }

  int first_ = 0;            // where the next search for a message from any rank begins
  bool responsive_ = false;  // peers have been told that this rank is polling
};

}  // namespace tutti::detail
