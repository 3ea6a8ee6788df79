// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Messages with tags between any two ranks: which receive gets which message, and how its bytes get there.
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

// Why messages cannot go on; left for the caller to report.
struct unfit_message {
  transfer const* receive = nullptr;  // null where there is none
  int from = no_rank;
  int tag = 0;
  std::uint32_t type = 0;
  std::size_t bytes = 0;
  int refused = 0;     // errno: the sender's memory could not be read
  bool stray = false;  // what came from there is not what was to come next, or cut

  explicit operator bool() const { return receive != nullptr || stray; }
};

// Messages of a sender arrive in its order and are matched as they arrive, each with the first receive that fits; a receive
// takes the first that has arrived.
//
// A small message goes at once, with a head of 16 bytes, so one of 32 bytes is a single line of cache. Where no receive
// waits for it, the receiver keeps a copy. It has room for so many bytes of a sender, who counts what he has used of it
// and is told what is free again, in the head of whatever goes back. What is larger, or finds no room, is only offered.
// When it is matched the receiver reads it in memory that all ranks address; or fetches it through the kernel, where
// its sender may be elsewhere; or, where the sender waits, asks for it, and it comes in slices, which both ranks copy at
// once: 128 KiB in 3 us, 12 through the kernel, and 8 MiB in 0.2 ms, 1.4 (AMD EPYC, Zen 5). Neither is left in the lurch:
// what does not come, as the sender has gone on to something else, is fetched, and who has asked stays until it has come.
//
// So memory stays bounded, but for an offer of 40 bytes for each send that has not ended, and a message can be matched
// whatever was sent before it: no order of calls stops another.
template <transport Transport>
class messenger {
 public:
  explicit messenger(Transport& transport)
      : transport_(transport),
        channels_(transport),
        unmet_(transport.ranks()),
        sliced_(transport.ranks()),
        peers_(static_cast<std::size_t>(transport.ranks())) {}
  messenger(messenger const&) = delete;
  messenger& operator=(messenger const&) = delete;

  void start(transfer& t) {
    if (t.what == transfer::receive) return receive(t);
    if (t.peer == rank()) return send_to_self(t);
    peer& p = of(t.peer);
    if constexpr (queries_peers<Transport>)  // they cannot look it up
      if (p.told_types.insert(t.type).second)
        answer(t.peer, {.kind = kinds::name, .type = t.type}, t.type_name.substr(0, longest_name));
    if (p.idle() && offer(t)) return;
    p.queue.push_back(&t);
  }

  // `waits`: the caller polls again and again, and calls leave() in the end where attends() says so.
  progress poll(bool waits = false) {
    moved_ = false;
    if constexpr (reads_peers)
      if (waits && !shows_ && readable_ > 0) transport_.set_responsive(shows_ = true);
    std::size_t const ended = ended_;
    move();
    // The caller goes on to something else, or to what follows what has ended.
    if constexpr (reads_peers)
      if (sliced_.any_readable() && (!waits || ended_ != ended)) finish_asked();
    return moved_ ? progress::moved : progress::stuck;
  }
  bool attends() const noexcept { return shows_ || sliced_.any_readable(); }
  void leave() {
    if constexpr (reads_peers) {
      finish_asked();
      if (shows_) transport_.set_responsive(shows_ = false);
    }
  }
  // How many transfers have ended since this was asked last.
  std::size_t ended_some() noexcept { return std::exchange(ended_, 0); }
  unfit_message const& found() const noexcept { return found_; }
  // Of a type that a peer has used here; empty where that is unknown.
  std::string type_name(int peer_rank, std::uint32_t type) { return of(peer_rank).type_names[type]; }

  // Of no transfer that was started is anything touched from here on.
  void forget() noexcept {
    unmet_.clear();
    sliced_.clear();
    channels_.forget();
    for (peer& p : peers_) p = peer{};
    found_ = {};
    readable_ = 0;
    if constexpr (reads_peers)
      if (shows_) transport_.set_responsive(shows_ = false);
  }

 private:
  using kinds = message_kind;
  using channels = message_channels<Transport>;

  // Also what a sender has taken back after a fault.
  static constexpr bool reads_peers = [] {
    if constexpr (maps_memory<Transport>) return Transport::memory_outlives_owner;
    else return false;
  }();
  static constexpr int track_of_slices = channels::track_of_slices;
  // The system reads less than 2 GiB in a call.
  static constexpr std::size_t most_fetched = std::size_t{1} << 30;
  static constexpr std::size_t longest_name = 200;
  // For slices, before they are fetched: of a sender that waits, some 50 us; of one that may be between two waits.
  static constexpr int looks_at_present = 1000, looks_at_absent = 50;

  struct answer_to_it {
    message_head front;
    std::string text;
  };
  struct peer {
    fifo<transfer*> queue;           // sends of which it was told nothing
    std::vector<transfer*> offered;  // those that it was told of
    fifo<transfer*> asked;           // and those that go to it in slices
    std::vector<transfer*> leaving;  // all of which is on its way
    fifo<answer_to_it> answers;
    std::set<std::uint32_t> told_types;
    std::map<std::uint32_t, std::string> type_names;  // that it told
    std::vector<transfer*> answered;                  // receives that end with the last answer
    int awaited = 0;                                  // transfers that wait for a message of it
    int looks = 0;                                    // for slices, since one has come

    bool idle() const { return queue.empty() && asked.empty() && leaving.empty() && answers.empty(); }
  };

  void move() {
    for (int r = 0; r < transport_.ranks(); ++r) {
      peer& p = of(r);
      if (!p.idle()) flush(r);
      if (r != rank()) drain(r);
      if constexpr (reads_peers)
        if (sliced_.any_readable(r)) look_after(r);
    }
  }
  // What a peer was asked for while it waited comes before this rank does anything else: the peer may wait for that.
  void finish_asked() {
    bool any = moved_;
    for (int looks = 0; sliced_.any_readable() && looks < 2 * looks_at_present && !found_; ++looks) {
      pause_briefly();
      moved_ = false;
      move();
      if (moved_) any = true, looks = 0;
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
    if (channels_.fits_at_once(t.peer, t.bytes)) {
      if (!publish(t.peer, head_of(t, kinds::message), message_head::before_message, t.from, t.bytes)) return false;
      channels_.use_room(t.peer, t.bytes);
      has_gone(t);
      return true;
    }
    if (t.id == 0) t.id = ++ids_;
    message_head front = head_of(t, kinds::offer);
    if constexpr (reads_peers) {
      if (transport_.is_shared(t.from, t.bytes))
        front.kind = kinds::shown, front.address = transport_.shared_address(t.from);
      else if (transport_.pulls() && !t.awaited) front.address = reinterpret_cast<std::uintptr_t>(t.from);
    }
    if (!publish(t.peer, front, sizeof front)) return false;
    t.address = front.kind == kinds::offer ? front.address : 0;
    if (t.address != 0) ++readable_;
    p.offered.push_back(&t);
    ++p.awaited;
    return true;
  }
  void has_gone(transfer& t) {
    if constexpr (sends_outside_calls<Transport>) {
      t.last = transport_.published(t.peer, message_track);
      if (!transport_.has_left(t.peer, message_track, t.last)) return of(t.peer).leaving.push_back(&t);
    }
    end(t);
  }

  void flush(int to) {
    peer& p = of(to);
    for (; !p.answers.empty(); p.answers.pop_front())
      if (answer_to_it const& a = p.answers.front();
          !publish(to, a.front, sizeof(message_head), bytes_of(a.text), a.text.size()))
        return;
    for (transfer* const t : p.answered) end(*t);
    p.answered.clear();
    for (; !p.queue.empty(); p.queue.pop_front())
      if (!offer(*p.queue.front())) return;
    for (; !p.asked.empty(); p.asked.pop_front()) {
      transfer& t = *p.asked.front();
      if (!send_slices(t)) return;
      if (t.address != 0) count_out(t);
    }
    if constexpr (sends_outside_calls<Transport>)
      std::erase_if(p.leaving,
                    [&](transfer* t) { return transport_.has_left(to, message_track, t->last) && (end(*t), true); });
  }
  bool send_slices(transfer& t) {
    std::size_t const most = channels::slice_of(t.bytes) - message_head::before_slice;
    while (t.moved < t.bytes) {
      std::size_t const n = std::min(most, t.bytes - t.moved);
      message_head const front{.kind = kinds::slice, .id = t.partner};
      if (!publish<track_of_slices>(t.peer, front, message_head::before_slice, t.from + t.moved, n)) return false;
      t.moved += n;
    }
    // Whoever has fetched them nevertheless looks for slices behind a fence: they are there before what the program does to
    // the memory next.
    if constexpr (reads_peers)
      if (t.address != 0) std::atomic_thread_fence(std::memory_order_release);
    has_gone(t);
    return true;
  }

  void send_to_self(transfer& t) {
    bool const at_once = channels_.fits_at_once(rank(), t.bytes);
    message_head const front = head_of(t, kinds::message);
    if (transfer* const r = unmet_.find_receive(rank(), front.tag)) {
      deliver(*r, rank(), front, t.from);
      return end(t);
    }
    unmet_.add(kept_message{rank(), front, at_once ? copy_of(t.from, t.bytes) : nullptr, at_once ? nullptr : &t});
    if (!at_once) return;
    channels_.use_room(rank(), t.bytes);
    end(t);
  }

  // -- Receiving.

  // While anything is waited for: the rest stays where it is, and is not copied twice.
  void drain(int from) {
    peer const& p = of(from);
    drain<message_track>(from, [&] { return p.awaited > 0 || unmet_.awaits(from); });
    if constexpr (track_of_slices != message_track) drain<track_of_slices>(from, [&] { return sliced_.any(from); });
  }
  template <int Track, class Awaited>
  void drain(int from, Awaited&& awaited) {
    while (awaited() && !found_) {
      auto next = channels_.template look<Track>(from);
      if (!next) return;
      if (next.stray) {
        found_ = {.from = from, .stray = true};
        return;
      }
      take(from, next.front, next.at);
      channels_.template release<Track>(from);
      moved_ = true;
    }
  }

  void take(int from, message_head& front, arrival const& a) {
    peer& p = of(from);
    switch (front.kind) {
      case kinds::message: {
        front.bytes = a.bytes - message_head::before_message;
        std::byte const* const data = a.data + message_head::before_message;
        if (transfer* const r = unmet_.find_receive(from, front.tag)) {
          deliver(*r, from, front, data);
          free_room(from, front.bytes);
        } else {
          unmet_.add(kept_message{from, front, copy_of(data, front.bytes), nullptr});
        }
        return;
      }
      case kinds::offer:
      case kinds::shown:
        if (transfer* const r = unmet_.find_receive(from, front.tag)) accept(*r, from, front);
        else unmet_.add(kept_message{from, front, nullptr, nullptr});
        return;
      case kinds::request:
        if (transfer* const t = remove(p.offered, front.id)) {
          t->partner = front.partner;
          p.asked.push_back(t);
          if (t->address == 0) count_out(*t);  // else its receiver may still say that he has read it
          flush(from);
        }
        return;
      case kinds::slice: return store(from, front.id, a);
      case kinds::taken:
        if (transfer* const t = remove(p.offered, front.id)) {
          count_out(*t);
          end(*t);
        } else if (auto const at = std::ranges::find(p.asked, front.id, &transfer::id); at != p.asked.end()) {
          count_out(**at);
          end(**at);
          p.asked.erase(at);
        }
        return;
      case kinds::room: return;
      case kinds::name:
        p.type_names[front.type].assign(reinterpret_cast<char const*>(a.data + sizeof front), a.bytes - sizeof front);
        return;
    }
  }

  static std::unique_ptr<std::byte[]> copy_of(std::byte const* data, std::size_t bytes) {
    auto out = std::make_unique_for_overwrite<std::byte[]>(bytes);
    if (bytes > 0) std::memcpy(out.get(), data, bytes);
    return out;
  }
  static transfer* remove(std::vector<transfer*>& from, std::uint64_t id) {
    auto const at = std::ranges::find(from, id, &transfer::id);
    if (at == from.end()) return nullptr;
    transfer* const out = *at;
    from.erase(at);
    return out;
  }
  // Of an offer, its receiver has nothing more to say.
  void count_out(transfer const& t) {
    --of(t.peer).awaited;
    if (t.address != 0) --readable_;
  }
  void free_room(int from, std::size_t bytes) {
    if (channels_.free_room(from, bytes) && of(from).answers.empty()) answer(from, {.kind = kinds::room});
  }
  void answer(int to, message_head const& front, std::string_view text = {}) {
    of(to).answers.push_back({front, std::string(text)});
    flush(to);
  }

  void receive(transfer& r) {
    auto const kept = unmet_.find_message(r);
    if (!kept) return unmet_.add(r);
    kept_message const& found = *kept;
    if (found.own != nullptr) {
      deliver(r, found.from, found.front, found.own->from);
      end(*found.own);
    } else if (found.front.kind == kinds::message) {
      deliver(r, found.from, found.front, found.data.get());
      free_room(found.from, found.front.bytes);
    } else {
      accept(r, found.from, found.front);
    }
  }

  // Whether a message may be stored.
  bool take_note(transfer& r, int from, message_head const& front) {
    r.source = from;
    r.source_tag = front.tag;
    r.got = front.bytes;
    if (r.type == front.type && front.bytes <= r.bytes) return true;
    found_ = {&r, from, front.tag, front.type, front.bytes};
    return false;
  }
  void deliver(transfer& r, int from, message_head const& front, std::byte const* data) {
    if (!take_note(r, from, front)) return;
    if (front.bytes > 0) std::memcpy(r.to, data, front.bytes);
    end(r);
  }
  // What was offered.
  void accept(transfer& r, int from, message_head const& front) {
    if (!take_note(r, from, front)) return;
    r.partner = front.id;
    if (r.got == 0) return is_taken(r);
    if constexpr (reads_peers) {
      r.address = front.address;
      if (front.kind == kinds::shown) {
        std::memcpy(r.to, transport_.at_shared_address(front.address), r.got);
        return is_taken(r);
      }
      if (front.address != 0 && !transport_.is_responsive(from)) {
        int const refused = fetch(r);
        return refused == 0 ? is_taken(r) : note_refused(r, refused);
      }
    }
    peer& p = of(from);
    r.id = ++ids_;
    if (!sliced_.any_readable(from)) p.looks = 0;
    sliced_.add(r);
    ++p.awaited;
    answer(from, {.kind = kinds::request, .id = front.id, .partner = r.id});
  }
  void is_taken(transfer& r) {
    of(r.source).answered.push_back(&r);
    answer(r.source, {.kind = kinds::taken, .id = r.partner});
  }
  // What has not come of a message: 0, or an errno.
  int fetch(transfer& r) {
    auto const* const data = reinterpret_cast<std::byte const*>(static_cast<std::uintptr_t>(r.address));
    for (std::size_t at = r.moved; at < r.got; at += std::min(most_fetched, r.got - at))
      if (int const refused = transport_.fetch(r.source, r.to + at, data + at, std::min(most_fetched, r.got - at)))
        return refused;
    return 0;
  }
  // That the sender has ended, the caller learns while it waits.
  void note_refused(transfer const& r, int refused) {
    if (refused != ESRCH) found_ = {&r, r.source, r.source_tag, r.type, r.got, refused};
  }

  // A sender that was asked because it waited may have gone on to something else, for long, and so what does not come is
  // fetched. It may come back meanwhile, send all and write to its memory or release it; then a slice has come by the time
  // that all is fetched, and counts. A sender that is asked no more has its slices ignored.
  void look_after(int from) {
    peer& p = of(from);
    if (++p.looks < (transport_.is_responsive(from) ? looks_at_present : looks_at_absent)) return;
    while (transfer* const next = sliced_.find_readable(from)) {
      transfer& r = *next;
      std::size_t const before = r.moved;
      p.looks = 0;
      int const refused = fetch(r);
      std::atomic_thread_fence(std::memory_order_acquire);
      drain<track_of_slices>(from, [&] { return sliced_.any(from); });
      if (r.moved != before || found_) return;
      if (refused != 0) return note_refused(r, refused);
      has_arrived(r);
      is_taken(r);
    }
  }
  void has_arrived(transfer& r) {
    sliced_.remove(r);
    --of(r.source).awaited;
  }
  void store(int from, std::uint64_t id, arrival const& a) {
    transfer* const asked = sliced_.find(id);
    if (asked == nullptr) return;
    transfer& r = *asked;
    std::size_t const n = std::min(a.bytes - message_head::before_slice, r.got - r.moved);
    std::memcpy(r.to + r.moved, a.data + message_head::before_slice, n);
    of(from).looks = 0;
    r.moved += n;
    if (r.moved < r.got) return;
    has_arrived(r);
    end(r);
  }

  Transport& transport_;
  channels channels_;
  matching unmet_;
  sliced_receives sliced_;
  std::vector<peer> peers_;
  std::uint64_t ids_ = 0;
  unfit_message found_;
  int readable_ = 0;    // offers that peers may read
  bool shows_ = false;  // that this rank waits
  bool moved_ = false;
  std::size_t ended_ = 0;
};

}  // namespace tutti::detail
