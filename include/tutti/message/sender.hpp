// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The sending side of tagged messages: eager messages, offers and their slices, and replies to other senders.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "tutti/core/by_peer.hpp"
#include "tutti/core/fifo.hpp"
#include "tutti/fault/transfer.hpp"
#include "tutti/message/channels.hpp"
#include "tutti/message/head.hpp"
#include "tutti/message/sliced_receives.hpp"
#include "tutti/transport/concept.hpp"

namespace tutti::detail {

// A base of messenger, which describes the protocol.
template <transport Transport>
class message_sender {
 protected:
  using kinds = message_kind;
  using channels = message_channels<Transport>;

  // A receiver may read memory of a peer, even after a fault has made the sender give up.
  static constexpr bool reads_peers = [] {
    if constexpr (maps_memory<Transport>) return Transport::memory_outlives_owner;
    else return false;
  }();
  static constexpr int track_of_slices = channels::track_of_slices;
  static constexpr std::size_t max_name = 200;

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
    requested_slices sliced;                     // that it was asked for
    int awaited = 0;                             // transfers that need a message from it
    int polls = 0;                               // since its last slice

    bool idle() const { return queue.empty() && requested.empty() && departing.empty() && replies.empty(); }
  };

  explicit message_sender(Transport& transport)
      : transport_(transport), channels_(transport), peers_(transport.ranks()) {}

  static std::byte const* bytes_of(std::string const& text) { return reinterpret_cast<std::byte const*>(text.data()); }
  int rank() const noexcept { return transport_.rank(); }
  peer& of(int r) { return peers_.of(r); }
  void end(transfer& t) noexcept {
    t.ended = true;
    moved_ = true;
    ++ended_;
  }

  void start_send(transfer& t) {
    peer& p = of(t.peer);
    if constexpr (queries_peers<Transport>)  // peers cannot read the table of names of this rank
      if (p.announced_types.insert(t.type).second)
        send_reply(t.peer, {.kind = kinds::name, .type = t.type}, t.type_name.substr(0, max_name));
    if (p.idle() && offer(t)) return;
    p.queue.push_back(&t);
  }
  void send_reply(int to, message_head const& front, std::string_view text = {}) {
    of(to).replies.push_back({front, std::string(text)});
    flush(to);
  }

  // A receiver asks for slices. False if nothing was offered to it under this number.
  bool take_request(int from, message_head const& front) {
    peer& p = of(from);
    transfer* const t = remove(p.offered, front.id);
    if (t == nullptr || t->place != 0) return false;
    t->partner = front.partner;
    p.requested.push_back(t);
    if (t->address == 0) settle(*t);  // otherwise its receiver may still send `taken`
    flush(from);
    return true;
  }
  // A receiver has read the message. False if it cannot have.
  bool take_notice_of_taken(int from, std::uint64_t id) {
    peer& p = of(from);
    if (transfer* const t = remove(p.offered, id)) {
      settle(*t);
      end(*t);
    } else if (auto const at = find(p.requested, id); at != p.requested.end()) {
      if ((*at)->address == 0) return false;
      settle(**at);
      end(**at);
      p.requested.erase(at);
    }
    return true;
  }

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
    if (t.place == 0 && channels_.fits_eagerly(t.peer, t.bytes)) {
      if (!publish(t.peer, head_of(t, kinds::eager), message_head::eager_head_bytes, t.from, t.bytes)) return false;
      channels_.use_credit(t.peer, t.bytes);
      end_once_left(t);
      return true;
    }
    if (t.id == 0) t.id = ++ids_;
    message_head front = head_of(t, kinds::offer);
    if (t.place != 0) {
      front.kind = kinds::device_offer, front.address = t.place;
    } else if constexpr (reads_peers) {
      if (transport_.is_shared(t.from, t.bytes))
        front.kind = kinds::shared_offer, front.address = transport_.shared_address(t.from);
      else if (transport_.pulls() && !t.blocking) front.address = reinterpret_cast<std::uintptr_t>(t.from);
    }
    if (!publish(t.peer, front, sizeof front)) return false;
    peer& p = of(t.peer);
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

  // Slices do not wait for a channel of messages that is full: their receiver may have left because there is room for them.
  void flush(int to) {
    peer& p = of(to);
    if (flush_replies(to, p)) flush_queue(p);
    for (; !p.requested.empty(); p.requested.pop_front()) {
      transfer& t = *p.requested.front();
      if (!send_slices(t)) break;
      if (t.address != 0) settle(t);
    }
    if constexpr (sends_outside_calls<Transport>)
      std::erase_if(p.departing,
                    [&](transfer* t) { return transport_.has_left(to, message_track, t->last) && (end(*t), true); });
  }
  // False while the channel is full.
  bool flush_replies(int to, peer& p) {
    for (; !p.replies.empty(); p.replies.pop_front())
      if (reply const& a = p.replies.front();
          !publish(to, a.front, sizeof(message_head), bytes_of(a.text), a.text.size()))
        return false;
    for (transfer* const t : p.ending) end(*t);
    p.ending.clear();
    return true;
  }
  void flush_queue(peer& p) {
    for (; !p.queue.empty(); p.queue.pop_front())
      if (!offer(*p.queue.front())) return;
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

  Transport& transport_;
  channels channels_;
  by_peer<peer> peers_;
  std::uint64_t ids_ = 0;
  int readable_ = 0;  // unsettled offers whose memory peers may read
  bool moved_ = false;
  std::size_t ended_ = 0;
};

}  // namespace tutti::detail
