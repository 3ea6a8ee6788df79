// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// How heads of messages, and the bytes behind them, get from rank to rank: numbered, and as far as there is room.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#include "tutti/core/wait.hpp"
#include "tutti/execute/transfer.hpp"
#include "tutti/message/head.hpp"
#include "tutti/reduce/combine.hpp"
#include "tutti/transport/arrival.hpp"
#include "tutti/transport/concept.hpp"
#include "tutti/transport/segment.hpp"
#include "tutti/transport/store_gauge.hpp"

namespace tutti::detail {

// Two channels to each peer: of messages, and of their slices where these have one.
template <transport Transport>
class message_channels {
 public:
  explicit message_channels(Transport& transport)
      : transport_(transport), peers_(static_cast<std::size_t>(transport.ranks())) {}

  static constexpr int track_of_slices = maps_memory<Transport> ? slice_track : message_track;
  // A message of a few slices goes in some that leave at once.
  static constexpr std::size_t slice_of(std::size_t bytes) {
    if constexpr (has_eager_limit<Transport>)
      if (bytes <= Transport::slice_bytes) return Transport::eager_bytes;
    return Transport::slice_bytes;
  }

  // False while the receiver has not made room in the channel.
  template <int Track = message_track>
  bool publish(int to, message_head front, std::size_t head_bytes, std::byte const* data = nullptr,
               std::size_t bytes = 0) {
    std::byte* const place = transport_.claim(to, Track, head_bytes + bytes, alignof(message_head));
    if (place == nullptr) return false;
    peer& p = of(to);
    std::uint32_t const tag = fingerprint(p.template on<Track>().sent++);
    std::size_t const length = head_bytes + bytes;
    if constexpr (Track == message_track)  // nobody looks at slices of what has been fetched
      front.room = static_cast<std::uint32_t>(std::exchange(p.freed, 0));
    front.length = static_cast<std::uint32_t>(length) & message_head::longest;
    std::memcpy(place, &front, head_bytes);
    if (bytes > 0) write(place + head_bytes, data, bytes);
    if constexpr (sends_outside_calls<Transport>)
      transport_.publish_outside_calls(to, Track, length, front.kind == message_kind::slice, tag);
    else transport_.publish(to, Track, length, false, tag);
    return true;
  }

  struct incoming {
    arrival at;
    message_head front{};
    bool stray = false;  // not what was to come next, or cut

    explicit operator bool() const { return at.state != arrival::nothing; }
  };
  // What comes next from there. Of what is no stray, release() must follow.
  template <int Track>
  incoming look(int from) {
    incoming out{transport_.peek(from, Track, fingerprint(of(from).template on<Track>().taken))};
    arrival const& a = out.at;
    if (a.state == arrival::nothing) {
      let_sender_write();
      return out;
    }
    if (a) std::memcpy(&out.front, a.data, std::min(sizeof out.front, a.bytes));
    out.stray = !a || out.front.length != a.bytes;
    if (out.stray) return out;
    ++of(from).template on<Track>().taken;
    of(from).room += out.front.room;
    if constexpr (prefetches_messages<Transport>)
      if (++in_a_row_ > 1) transport_.prefetch(from, Track);
    return out;
  }
  template <int Track>
  void release(int from) {
    transport_.release(from, Track);
  }

  // -- What a rank was sent and has not asked for its receiver keeps, and has room for so much of each of its peers.
  bool fits_at_once(int to, std::size_t bytes) { return bytes <= most_at_once() && room_for(bytes) <= of(to).room; }
  void use_room(int to, std::size_t bytes) { of(to).room -= room_for(bytes); }
  // The peer is told by whatever goes there next, and should be by a message of its own where that is half of all: true.
  bool free_room(int from, std::size_t bytes) {
    peer& p = of(from);
    if (from != transport_.rank()) return (p.freed += room_for(bytes)) >= kept_room / 2;
    p.room += room_for(bytes);
    return false;
  }

  void forget() noexcept {
    for (peer& p : peers_) p = peer{};
  }

 private:
  static constexpr std::size_t kept_room = std::size_t{256} << 10;
  static constexpr std::size_t room_for(std::size_t bytes) { return bytes + cache_line; }
  static constexpr std::size_t most_at_once() {
    if constexpr (has_eager_limit<Transport>) return Transport::eager_bytes - message_head::before_message;
    else return Transport::slice_bytes - message_head::before_message;
  }
  // Of the messages of a channel; so one that is lost, comes twice or was not meant for it is found.
  static constexpr std::uint32_t fingerprint(std::uint32_t number) { return 0x6d657373 + number; }
  static_assert(Transport::slice_bytes <= message_head::longest);

  // Of a channel there, and of that here.
  struct counts {
    std::uint32_t sent = 0, taken = 0;
  };
  struct peer {
    std::array<counts, 2> channels;
    std::size_t room = kept_room;  // there
    std::size_t freed = 0;         // here, of which it was not told

    template <int Track>
    counts& on() {
      return channels[Track == message_track ? 0 : 1];
    }
  };
  peer& of(int r) noexcept { return peers_[static_cast<std::size_t>(r)]; }

  void write(std::byte* to, std::byte const* from, std::size_t bytes) noexcept {
    if constexpr (maps_memory<Transport>)
      if (bytes >= store_gauge::least_bytes) return write_much(to, from, bytes);
    std::memcpy(to, from, bytes);
  }
  [[gnu::noinline]] void write_much(std::byte* to, std::byte const* from, std::size_t bytes) noexcept {
    auto const trial = gauge_.begin(bytes);
    copy(one_thread{}, from, &to, 1, bytes, trial.stream);
    gauge_.end(trial, bytes);
  }
  // A look takes the line from a sender that is about to write to it. After several messages there will be more, and both
  // are faster if they do not meet at each.
  void let_sender_write() noexcept {
    if (std::exchange(in_a_row_, 0) < 2) return;
    pause_briefly();
    pause_briefly();
  }

  Transport& transport_;
  std::vector<peer> peers_;
  store_gauge gauge_;  // another than that of calls, which other threads may move
  int in_a_row_ = 0;   // messages since one was missing
};

}  // namespace tutti::detail
