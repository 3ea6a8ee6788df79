// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The channels of tagged messages: sequence numbers, and the credit that bounds eager messages.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <new>
#include <utility>

#include "tutti/core/by_peer.hpp"
#include "tutti/core/wait.hpp"
#include "tutti/fault/transfer.hpp"
#include "tutti/message/head.hpp"
#include "tutti/reduce/combine.hpp"
#include "tutti/transport/arrival.hpp"
#include "tutti/transport/cache_lines.hpp"
#include "tutti/transport/concept.hpp"
#include "tutti/transport/segment.hpp"
#include "tutti/transport/store_gauge.hpp"

namespace tutti::detail {

// One or two channels to each peer: one for messages, and where memory is mapped another for their slices.
template <transport Transport>
class message_channels {
 public:
  explicit message_channels(Transport& transport) : transport_(transport), peers_(transport.ranks()) {}

  static constexpr int track_of_slices = maps_memory<Transport> ? slice_track : message_track;
  // A message that fits one slice is split at the eager limit, so that each part leaves at once.
  static constexpr std::size_t slice_bytes_for(std::size_t bytes) {
    if constexpr (has_eager_limit<Transport>)
      if (bytes <= Transport::slice_bytes) return Transport::eager_bytes;
    return Transport::slice_bytes;
  }

  // False while the channel is full.
  template <int Track = message_track>
  bool publish(int to, message_head const& front, std::size_t head_bytes, std::byte const* data = nullptr,
               std::size_t bytes = 0) {
    std::byte* const place = claim<Track>(to, head_bytes + bytes);
    if (place == nullptr) return false;
    peer& p = of(to);
    std::uint32_t const tag = fingerprint(p.template on<Track>().sent++);
    std::size_t const length = head_bytes + bytes;
    // Not in slices: those of a message that was fetched are never read.
    std::uint32_t credit = 0;
    if constexpr (Track == message_track) {
      credit = static_cast<std::uint32_t>(std::exchange(p.returned, 0));
      if (in_a_row_ < many_in_a_row)
        in_a_row_ = 0;  // an answer, or an exchange with this peer; otherwise a window has ended
    }
    write_head(place, front, static_cast<std::uint32_t>(length), credit, head_bytes);
    if (bytes > 0) write(place + head_bytes, data, bytes);
    if constexpr (sends_outside_calls<Transport>)
      transport_.publish_outside_calls(to, Track, length, front.kind == message_kind::slice, tag);
    else transport_.publish(to, Track, length, false, tag);
    if constexpr (prefetches_messages<Transport> && Track == message_track) {
      // Somebody may be waiting for a message that follows no other: 512 bytes take 0.62 us instead of 0.71, 4 KiB 1.38 instead of 1.48
      // (Emerald Rapids). Messages in a row would take longer.
      if (on_mesh && sent_in_a_row_ == 0 && length > inline_bytes && length <= max_bytes_demoted) demote(place, length);
      // Another message of this length is likely to follow. A slot that is written past the caches need not be fetched.
      if (++sent_in_a_row_ > 1 || length <= inline_bytes)
        transport_.prefetch_for_sending(to, Track, gauge_.streams_in_a_row(bytes) ? 0 : length);
    }
    return true;
  }

  struct incoming {
    arrival at;
    message_head front{};
    bool out_of_sequence = false;  // lost, repeated, truncated, damaged, or of another communicator

    explicit operator bool() const { return at.state != arrival::nothing; }
  };
  // The next message from a peer. Call release() after it unless it is out of sequence.
  template <int Track>
  incoming peek(int from) {
    peer& p = of(from);
    incoming out{transport_.peek(from, Track, fingerprint(p.template on<Track>().received))};
    arrival const& a = out.at;
    if (a.state == arrival::nothing) {
      yield_line_to_sender();
      return out;
    }
    if (a && a.bytes >= message_head::eager_head_bytes) [[likely]] {
      std::memcpy(static_cast<void*>(&out.front), a.data, message_head::eager_head_bytes);
      if (out.front.kind != message_kind::eager)
        std::memcpy(static_cast<void*>(&out.front), a.data, std::min(sizeof out.front, a.bytes));
    }
    out.out_of_sequence = !a || out.front.length != a.bytes || !out.front.fits(a.bytes);
    if (out.out_of_sequence) return out;
    sent_in_a_row_ = 0;
    ++p.template on<Track>().received;
    p.credit += out.front.credit;
    if constexpr (prefetches_messages<Transport>)
      if (++in_a_row_ > 1 && prefetches_after(a.bytes)) transport_.prefetch(from, Track);
    return out;
  }
  template <int Track>
  void release(int from) {
    transport_.release(from, Track);
  }

  // -- Credit. A receiver buffers eager messages that no receive has matched. Each sender has a credit of so many bytes there,
  // spends it with each eager message, and gets it back as the receiver frees the buffers.
  bool fits_eagerly(int to, std::size_t bytes) {
    return bytes <= max_eager_payload() && credit_for(bytes) <= of(to).credit;
  }
  void use_credit(int to, std::size_t bytes) { of(to).credit -= credit_for(bytes); }
  // The next head to that peer returns the credit. True if half of all credit is due, which is worth a
  // message of its own.
  bool return_credit(int from, std::size_t bytes) {
    peer& p = of(from);
    if (from != transport_.rank()) return (p.returned += credit_for(bytes)) >= initial_credit / 2;
    p.credit += credit_for(bytes);
    return false;
  }

  bool has_sent_last() const noexcept { return sent_in_a_row_ > 0; }

  void reset() noexcept { peers_.reset(); }
  // As if this many messages had been exchanged with every rank. All ranks call it before their first; tests let counters pass
  // their limits.
  [[gnu::cold]] void skip(std::uint64_t count) {
    auto const n = static_cast<std::uint32_t>(count);
    for (int r = 0; r < transport_.ranks(); ++r) of(r).channels = {counts{n, n}, counts{n, n}};
  }

  // The tag of message `number` of a channel, by which a lost, repeated or stray message is detected.
  static constexpr std::uint32_t fingerprint(std::uint32_t number) { return 0x6d657373 + number; }

 private:
  static constexpr int many_in_a_row = 8;
  static constexpr std::size_t max_bytes_demoted = 4096 + cache_line;
  static constexpr std::size_t initial_credit = std::size_t{256} << 10;
  static constexpr std::size_t credit_for(std::size_t bytes) { return bytes + cache_line; }
  static constexpr std::size_t max_eager_payload() {
    if constexpr (has_eager_limit<Transport>) return Transport::eager_bytes - message_head::eager_head_bytes;
    else return Transport::slice_bytes - message_head::eager_head_bytes;
  }
  template <int Track>
  std::byte* claim(int to, std::size_t bytes) noexcept {
    if constexpr (prefetches_messages<Transport> && Track == message_track)
      return transport_.claim_for_message(to, Track, bytes, alignof(message_head), gauge_.streams_in_a_row(bytes));
    else return transport_.claim(to, Track, bytes, alignof(message_head));
  }
  static_assert(Transport::slice_bytes <= message_head::max_length);

  // Messages sent to a peer, and received from it.
  struct counts {
    std::uint32_t sent = 0, received = 0;
  };
  struct peer {
    std::array<counts, 2> channels;
    std::size_t credit = initial_credit;  // for eager messages to it
    std::size_t returned = 0;  // credit of its messages that was freed here, and that it has not been told of

    template <int Track>
    counts& on() {
      return channels[Track == message_track ? 0 : 1];
    }
  };
  peer& of(int r) { return peers_.of(r); }

  // Writes the fields one by one. A copy of the head would load several at once, and so wait until their stores have left the
  // core, behind those of the last message to a line that its receiver holds.
  static void write_head(std::byte* to, message_head const& front, std::uint32_t length, std::uint32_t credit,
                         std::size_t head_bytes) noexcept {
    auto* const out = ::new (to) std::uint32_t[4];
    out[0] = message_head::first_word(front.kind, length);
    out[1] = credit;
    out[2] = loaded_alone(static_cast<std::uint32_t>(front.tag));
    out[3] = front.type;
    if (head_bytes > message_head::eager_head_bytes)
      std::memcpy(to + message_head::eager_head_bytes, &front.id, head_bytes - message_head::eager_head_bytes);
  }
  // Keeps the compiler from loading this value together with its neighbour.
  static std::uint32_t loaded_alone(std::uint32_t value) noexcept {
    asm("" : "+r"(value));
    return value;
  }
  void write(std::byte* to, std::byte const* from, std::size_t bytes) noexcept {
    if constexpr (maps_memory<Transport>)
      if (bytes >= store_gauge::min_bytes_in_a_row &&
          (bytes >= store_gauge::min_bytes || (sent_in_a_row_ > 1 && !gauge_.is_plain_in_a_row())))
        return write_large(to, from, bytes);
    std::memcpy(to, from, bytes);
  }
  [[gnu::noinline]] void write_large(std::byte* to, std::byte const* from, std::size_t bytes) noexcept {
    auto const trial = gauge_.begin_in_a_row(bytes);
    copy(one_thread{}, from, &to, 1, bytes, trial.stream);
    gauge_.end_in_a_row(trial, bytes);
  }
  // Whether the line of a later message is fetched early. After a short message in a slot, that line is often the one that its sender
  // is writing: without this, 64 of 1 KiB take 8.7 us instead of 9.8.
  static constexpr bool prefetches_after(std::size_t bytes) {
    return bytes <= inline_bytes || bytes >= store_gauge::min_bytes_in_a_row;
  }
  // Polling takes the cache line from a sender that is about to write to it. After several messages in a row more will follow,
  // and both ranks are faster if they do not contend for every line. After many in a row, this rank waits until its sender is a few
  // messages ahead: windows of 64 times 8 bytes, back to back, take 5.4 us instead of 7.1 between cores that share no cache.
  void yield_line_to_sender() noexcept {
    int const before = std::exchange(in_a_row_, 0);
    if (before < 2) return;
    for (int pauses = before < many_in_a_row ? 2 : 8; pauses > 0; --pauses) pause_briefly();
  }

  Transport& transport_;
  by_peer<peer> peers_;
  store_gauge gauge_;  // separate from that of calls, which other threads may drive
  int in_a_row_ =
      0;  // messages received; an empty look ends the row, and so does a send, unless the row is long (a window)
  int sent_in_a_row_ = 0;  // messages sent since one was last received
};

}  // namespace tutti::detail
