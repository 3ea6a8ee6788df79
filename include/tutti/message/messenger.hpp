// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The protocol of tagged messages between two ranks: matching, eager messages, and rendezvous by reading, fetching or slices.
#pragma once

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tutti/core/fifo.hpp"
#include "tutti/core/wait.hpp"
#include "tutti/execute/transfer.hpp"
#include "tutti/message/channels.hpp"
#include "tutti/message/head.hpp"
#include "tutti/message/matching.hpp"
#include "tutti/message/sliced_receives.hpp"
#include "tutti/transport/arrival.hpp"
#include "tutti/transport/concept.hpp"

namespace tutti::detail {

// Why messages cannot continue. The caller of poll() reports it.
struct message_failure {
  transfer const* receive = nullptr;  // the receive that its message does not fit, or null
  int from = no_rank;
  int tag = 0;
  std::uint32_t type = 0;
  std::size_t bytes = 0;
  int read_error = 0;            // errno, if the sender's memory could not be read
  bool out_of_sequence = false;  // a message was lost, repeated, truncated, damaged, or of another communicator

  explicit operator bool() const { return receive != nullptr || out_of_sequence; }
};

// Messages from one sender arrive in order. Each is matched on arrival with the first receive that accepts it; a new receive
// takes the first message that has arrived.
//
// A small message is eager: it leaves at once behind a head of 16 bytes, so that 32 bytes fit a cache line. If no receive
// matches it yet, the receiver keeps a copy, for which each sender has a limited credit. The head of any message in the
// other direction returns credit. A message that is larger, or for which the credit does not suffice, takes a rendezvous:
// the sender offers it, and once it is matched, the receiver
// - reads it in place, if it lies in memory that all ranks map;
// - fetches it through the kernel, if the sender is not polling;
// - otherwise requests slices, which both ranks copy at the same time: 128 KiB take 3 us (12 through the kernel), 8 MiB
//   0.2 ms (1.4), on an AMD EPYC (Zen 5). If the sender stops polling, the receiver fetches the rest, and a receiver that
//   stops waiting first completes the slices that it has requested.
//
// So memory stays bounded, except for an offer of 40 bytes per unfinished send, and earlier messages never keep a later one
// from being matched: no order of calls can block another.
template <transport Transport>
class messenger {
 public:
  explicit messenger(Transport& transport)
      : transport_(transport),
        channels_(transport),
        unmatched_(transport.ranks()),
        sliced_(transport.ranks()),
        peers_(static_cast<std::size_t>(transport.ranks())) {}
  messenger(messenger const&) = delete;
  messenger& operator=(messenger const&) = delete;

  void start(transfer& t) {
    if (t.what == transfer::receive) return receive(t);
    if (t.peer == rank()) return send_to_self(t);
    peer& p = of(t.peer);
    if constexpr (queries_peers<Transport>)  // peers cannot read the table of names of this rank
      if (p.announced_types.insert(t.type).second)
        send_reply(t.peer, {.kind = kinds::name, .type = t.type}, t.type_name.substr(0, max_name));
    if (p.idle() && offer(t)) return;
    p.queue.push_back(&t);
  }

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
  // The name of a type that a peer has sent, or empty if unknown.
  std::string type_name(int peer_rank, std::uint32_t type) { return of(peer_rank).names[type]; }

  // Drops all transfers and does not touch them again.
  void drop_all() noexcept {
    unmatched_.clear();
    sliced_.clear();
    channels_.reset();
    for (peer& p : peers_) p = peer{};
    failure_ = {};
    readable_ = 0;
    if constexpr (reads_peers)
      if (responsive_) transport_.set_responsive(responsive_ = false);
  }

 private:
  using kinds = message_kind;
  using channels = message_channels<Transport>;

  // A receiver may read memory of a peer, even after a fault has made the sender give up.
  static constexpr bool reads_peers = [] {
    if constexpr (maps_memory<Transport>) return Transport::memory_outlives_owner;
    else return false;
  }();
  static constexpr int track_of_slices = channels::track_of_slices;
  // The kernel reads less than 2 GiB per call.
  static constexpr std::size_t max_fetched = std::size_t{1} << 30;
  static constexpr std::size_t max_name = 200;
  // Polls without a slice before the receiver fetches the message: about 50 us if the sender is polling, and less if it is
  // not, though it may be between two waits.
  static constexpr int polls_if_responsive = 1000, polls_if_not = 50;

  struct reply {
    message_head front;
    std::string text;
  };
  struct peer {
    fifo<transfer*> queue;             // sends not announced to it yet
    std::vector<transfer*> offered;    // sends offered to it
    fifo<transfer*> requested;         // sends of which it has requested slices
    std::vector<transfer*> departing;  // sends published in full that have not left yet
    fifo<reply> replies;
    std::vector<transfer*> ending;               // receives that end once all replies are published
    std::set<std::uint32_t> announced_types;     // whose names it has been sent
    std::map<std::uint32_t, std::string> names;  // of types, as it has sent them
    int awaited = 0;                             // transfers that need a message from it
    int polls = 0;                               // since its last slice

    bool idle() const { return queue.empty() && requested.empty() && departing.empty() && replies.empty(); }
  };

  void move() {
    for (int r = 0; r < transport_.ranks(); ++r) {
      peer& p = of(r);
      if (!p.idle()) flush(r);
      if (r != rank()) drain(r);
      if constexpr (reads_peers)
        if (sliced_.any_readable(r)) fetch_overdue(r);
    }
  }
  // A peer that was asked for slices while it waited may be blocked until they are taken: complete them before leaving.
  void finish_slices() {
    bool any = moved_;
    for (int polls = 0; sliced_.any_readable() && polls < 2 * polls_if_responsive && !failure_; ++polls) {
      pause_briefly();
      moved_ = false;
      move();
      if (moved_) any = true, polls = 0;
    }
    moved_ = any;
  }

  static std::byte const* bytes_of(std::string const& text) { return reinterpret_cast<std::byte const*>(text.data()); }
  int rank() const noexcept { return transport_.rank(); }
  peer& of(int r) noexcept { return peers_[static_cast<std::size_t>(r)]; }
  void end(transfer& t) noexcept {
    t.ended = true;
    moved_ = true;
    ++ended_;
  }

  // -- Sending.

  template <int Track = message_track>
  bool publish(int to, message_head const& front, std::size_t head_bytes, std::byte const* data = nullptr,
               std::size_t bytes = 0) {
    bool const done = channels_.template publish<Track>(to, front, head_bytes, data, bytes);
    moved_ |= done;
    return done;
  }
  message_head head_of(transfer const& t, kinds kind) const {
    return {.kind = kind, .tag = t.tag, .type = t.type, .id = t.id, .bytes = t.bytes};
  }

  bool offer(transfer& t) {
    peer& p = of(t.peer);
    if (channels_.fits_eagerly(t.peer, t.bytes)) {
      if (!publish(t.peer, head_of(t, kinds::eager), message_head::eager_head_bytes, t.from, t.bytes)) return false;
      channels_.use_credit(t.peer, t.bytes);
      end_once_left(t);
      return true;
    }
    if (t.id == 0) t.id = ++ids_;
    message_head front = head_of(t, kinds::offer);
    if constexpr (reads_peers) {
      if (transport_.is_shared(t.from, t.bytes))
        front.kind = kinds::shared_offer, front.address = transport_.shared_address(t.from);
      else if (transport_.pulls() && !t.blocking) front.address = reinterpret_cast<std::uintptr_t>(t.from);
    }
    if (!publish(t.peer, front, sizeof front)) return false;
    t.address = front.kind == kinds::offer ? front.address : 0;
    if (t.address != 0) ++readable_;
    p.offered.push_back(&t);
    ++p.awaited;
    return true;
  }
  void end_once_left(transfer& t) {
    if constexpr (sends_outside_calls<Transport>) {
      t.last = transport_.published(t.peer, message_track);
      if (!transport_.has_left(t.peer, message_track, t.last)) return of(t.peer).departing.push_back(&t);
    }
    end(t);
  }

  void flush(int to) {
    peer& p = of(to);
    for (; !p.replies.empty(); p.replies.pop_front())
      if (reply const& a = p.replies.front();
          !publish(to, a.front, sizeof(message_head), bytes_of(a.text), a.text.size()))
        return;
    for (transfer* const t : p.ending) end(*t);
    p.ending.clear();
    for (; !p.queue.empty(); p.queue.pop_front())
      if (!offer(*p.queue.front())) return;
    for (; !p.requested.empty(); p.requested.pop_front()) {
      transfer& t = *p.requested.front();
      if (!send_slices(t)) return;
      if (t.address != 0) settle(t);
    }
    if constexpr (sends_outside_calls<Transport>)
      std::erase_if(p.departing,
                    [&](transfer* t) { return transport_.has_left(to, message_track, t->last) && (end(*t), true); });
  }
  bool send_slices(transfer& t) {
    std::size_t const max_payload = channels::slice_bytes_for(t.bytes) - message_head::slice_head_bytes;
    while (t.moved < t.bytes) {
      std::size_t const n = std::min(max_payload, t.bytes - t.moved);
      message_head const front{.kind = kinds::slice, .id = t.partner};
      if (!publish<track_of_slices>(t.peer, front, message_head::slice_head_bytes, t.from + t.moved, n)) return false;
      t.moved += n;
    }
    // A receiver that has fetched the memory meanwhile looks for slices after a fence. With this one, it sees the slices
    // before anything that the program does to the memory next.
    if constexpr (reads_peers)
      if (t.address != 0) std::atomic_thread_fence(std::memory_order_release);
    end_once_left(t);
    return true;
  }

  void send_to_self(transfer& t) {
    bool const eager = channels_.fits_eagerly(rank(), t.bytes);
    message_head const front = head_of(t, kinds::eager);
    if (transfer* const r = unmatched_.take_receive(rank(), front.tag)) {
      deliver(*r, rank(), front, t.from);
      return end(t);
    }
    unmatched_.add(kept_message{rank(), front, eager ? copy_of(t.from, t.bytes) : nullptr, eager ? nullptr : &t});
    if (!eager) return;
    channels_.use_credit(rank(), t.bytes);
    end(t);
  }

  // -- Receiving.

  // Only while something is awaited: other messages stay in the channel rather than being copied twice.
  void drain(int from) {
    peer const& p = of(from);
    drain<message_track>(from, [&] { return p.awaited > 0 || unmatched_.awaits(from); });
    if constexpr (track_of_slices != message_track) drain<track_of_slices>(from, [&] { return sliced_.any(from); });
  }
  template <int Track, class Awaited>
  void drain(int from, Awaited&& awaited) {
    while (awaited() && !failure_) {
      auto next = channels_.template peek<Track>(from);
      if (!next) return;
      if (next.out_of_sequence) return note_damage(from);
      handle(from, next.front, next.at);
      channels_.template release<Track>(from);
      moved_ = true;
    }
  }

  void handle(int from, message_head& front, arrival const& a) {
    peer& p = of(from);
    switch (front.kind) {
      case kinds::eager: {
        front.bytes = a.bytes - message_head::eager_head_bytes;
        std::byte const* const data = a.data + message_head::eager_head_bytes;
        if (transfer* const r = unmatched_.take_receive(from, front.tag)) {
          deliver(*r, from, front, data);
          return_credit(from, front.bytes);
        } else {
          unmatched_.add(kept_message{from, front, copy_of(data, front.bytes), nullptr});
        }
        return;
      }
      case kinds::offer:
      case kinds::shared_offer:
        if (transfer* const r = unmatched_.take_receive(from, front.tag)) accept_offer(*r, from, front);
        else unmatched_.add(kept_message{from, front, nullptr, nullptr});
        return;
      case kinds::request:
        if (transfer* const t = remove(p.offered, front.id)) {
          t->partner = front.partner;
          p.requested.push_back(t);
          if (t->address == 0) settle(*t);  // otherwise its receiver may still send `taken`
          flush(from);
        } else {
          note_damage(from);
        }
        return;
      case kinds::slice: return store_slice(from, front.id, a);
      case kinds::taken:
        if (transfer* const t = remove(p.offered, front.id)) {
          settle(*t);
          end(*t);
        } else if (auto const at = find(p.requested, front.id); at != p.requested.end()) {
          if ((*at)->address == 0) return note_damage(from);  // its receiver cannot have read it
          settle(**at);
          end(**at);
          p.requested.erase(at);
        }
        return;
      case kinds::credit: return;
      case kinds::name:
        p.names[front.type].assign(reinterpret_cast<char const*>(a.data + sizeof front), a.bytes - sizeof front);
        return;
    }
  }

  // A message was lost or changed on the way.
  void note_damage(int from) { failure_ = {.from = from, .out_of_sequence = true}; }

  static std::unique_ptr<std::byte[]> copy_of(std::byte const* data, std::size_t bytes) {
    auto out = std::make_unique_for_overwrite<std::byte[]>(bytes);
    if (bytes > 0) std::memcpy(out.get(), data, bytes);
    return out;
  }
  template <class Transfers>
  static auto find(Transfers& all, std::uint64_t id) {
    return std::find_if(all.begin(), all.end(), [&](transfer const* t) { return t->id == id; });
  }
  static transfer* remove(std::vector<transfer*>& from, std::uint64_t id) {
    auto const at = find(from, id);
    if (at == from.end()) return nullptr;
    transfer* const out = *at;
    from.erase(at);
    return out;
  }
  // The receiver of an offer will send nothing more about it.
  void settle(transfer const& t) {
    --of(t.peer).awaited;
    if (t.address != 0) --readable_;
  }
  void return_credit(int from, std::size_t bytes) {
    if (channels_.return_credit(from, bytes) && of(from).replies.empty()) send_reply(from, {.kind = kinds::credit});
  }
  void send_reply(int to, message_head const& front, std::string_view text = {}) {
    of(to).replies.push_back({front, std::string(text)});
    flush(to);
  }

  void receive(transfer& r) {
    auto const kept = unmatched_.take_message(r);
    if (!kept) return unmatched_.add(r);
    kept_message const& found = *kept;
    if (found.local_send != nullptr) {
      deliver(r, found.from, found.front, found.local_send->from);
      end(*found.local_send);
    } else if (found.front.kind == kinds::eager) {
      deliver(r, found.from, found.front, found.data.get());
      return_credit(found.from, found.front.bytes);
    } else {
      accept_offer(r, found.from, found.front);
    }
  }

  // Records the source of a message; false if the message does not fit the receive.
  bool accept_head(transfer& r, int from, message_head const& front) {
    r.source = from;
    r.source_tag = front.tag;
    r.got = front.bytes;
    if (r.type == front.type && front.bytes <= r.bytes) return true;
    failure_ = {&r, from, front.tag, front.type, front.bytes};
    return false;
  }
  void deliver(transfer& r, int from, message_head const& front, std::byte const* data) {
    if (!accept_head(r, from, front)) return;
    if (front.bytes > 0) std::memcpy(r.to, data, front.bytes);
    end(r);
  }
  void accept_offer(transfer& r, int from, message_head const& front) {
    if (!accept_head(r, from, front)) return;
    r.partner = front.id;
    if (r.got == 0) return end_taken(r);
    if constexpr (reads_peers) {
      r.address = front.address;
      if (front.kind == kinds::shared_offer) {
        std::memcpy(r.to, transport_.at_shared_address(front.address), r.got);
        return end_taken(r);
      }
      if (front.address != 0 && !transport_.is_responsive(from)) {
        int const read_error = fetch(r);
        return read_error == 0 ? end_taken(r) : note_read_error(r, read_error);
      }
    }
    peer& p = of(from);
    r.id = ++ids_;
    if (!sliced_.any_readable(from)) p.polls = 0;
    sliced_.add(r);
    ++p.awaited;
    send_reply(from, {.kind = kinds::request, .id = front.id, .partner = r.id});
  }
  void end_taken(transfer& r) {
    of(r.source).ending.push_back(&r);
    send_reply(r.source, {.kind = kinds::taken, .id = r.partner});
  }
  // Fetches what has not arrived of a message. Returns 0, or an errno.
  int fetch(transfer& r) {
    auto const* const data = reinterpret_cast<std::byte const*>(static_cast<std::uintptr_t>(r.address));
    for (std::size_t at = r.moved; at < r.got; at += std::min(max_fetched, r.got - at))
      if (int const read_error = transport_.fetch(r.source, r.to + at, data + at, std::min(max_fetched, r.got - at)))
        return read_error;
    return 0;
  }
  // If the sender has ended, the caller finds that out while it waits.
  void note_read_error(transfer const& r, int code) {
    if (code != ESRCH) failure_ = {&r, r.source, r.source_tag, r.type, r.got, code};
  }

  // A sender that was asked for slices because it was polling may have turned to something else for long, so overdue messages
  // are fetched. The sender may return meanwhile, send everything, and overwrite or release its memory; then a slice has
  // arrived by the time the fetch is complete, and what was fetched does not count. Slices that arrive after `taken` are
  // ignored.
  void fetch_overdue(int from) {
    peer& p = of(from);
    if (++p.polls < (transport_.is_responsive(from) ? polls_if_responsive : polls_if_not)) return;
    while (transfer* const next = sliced_.find_readable(from)) {
      transfer& r = *next;
      std::size_t const before = r.moved;
      p.polls = 0;
      int const read_error = fetch(r);
      std::atomic_thread_fence(std::memory_order_acquire);
      drain<track_of_slices>(from, [&] { return sliced_.any(from); });
      if (r.moved != before || failure_) return;
      if (read_error != 0) return note_read_error(r, read_error);
      forget_slices(r);
      end_taken(r);
    }
  }
  void forget_slices(transfer& r) {
    sliced_.remove(r);
    --of(r.source).awaited;
  }
  void store_slice(int from, std::uint64_t id, arrival const& a) {
    transfer* const requested = sliced_.find(id);
    if (requested == nullptr) return;
    transfer& r = *requested;
    std::size_t const n = std::min(a.bytes - message_head::slice_head_bytes, r.got - r.moved);
    std::memcpy(r.to + r.moved, a.data + message_head::slice_head_bytes, n);
    of(from).polls = 0;
    r.moved += n;
    if (r.moved < r.got) return;
    forget_slices(r);
    end(r);
  }

  Transport& transport_;
  channels channels_;
  matching unmatched_;
  sliced_receives sliced_;
  std::vector<peer> peers_;
  std::uint64_t ids_ = 0;
  message_failure failure_;
  int readable_ = 0;         // unsettled offers whose memory peers may read
  bool responsive_ = false;  // peers have been told that this rank is polling
  bool moved_ = false;
  std::size_t ended_ = 0;
};

}  // namespace tutti::detail
