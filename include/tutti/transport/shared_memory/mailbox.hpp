// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Messages through a shared segment, for loopback and shm. It hands out views of slots, so that an operation reads a
// value where it arrived and writes the result where it is to be sent from.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "tutti/core/function_ref.hpp"
#include "tutti/core/wait.hpp"
#include "tutti/transport/arrival.hpp"
#include "tutti/transport/ballot.hpp"
#include "tutti/transport/board.hpp"
#include "tutti/transport/cache_lines.hpp"
#include "tutti/transport/segment.hpp"
#include "tutti/transport/shared_memory/packet_rounds.hpp"
#include "tutti/transport/store_gauge.hpp"

namespace tutti::detail {

class mailbox : public packet_rounds {
 public:
  static constexpr std::size_t slice_bytes = slot_bytes;

  mailbox(int rank, int ranks, int tracks);

  patience waits() const noexcept {
    return {waits_.spins, waits_.yields, &share_core, this, waits_.yields_reach_peers};
  }
  // An input of the choice of algorithm, so the same at all ranks.
  bool crowded() const noexcept { return waits_.spins < patience_with_cores.spins; }
  bool pulls() const noexcept { return pulls_; }

  // -- Sending: claim a place, write to it, publish. Null while the receiver has not made room. Elements with a larger
  // alignment than the rest of the head's line are placed in the slot, which is aligned to a cache line.
  std::byte* claim(int to, int track, std::size_t bytes, std::size_t alignment) noexcept {
    bool const streams = bytes > max_close_bytes_streaming && gauge_.streams(max_close_bytes);
    return claim_place(to, track, bytes, alignment, streams ? max_close_bytes_streaming : max_close_bytes);
  }
  // The same for a tagged message. `streams`: whether the sender, which has a gauge of its own, will write it with streaming stores. It
  // may take two close places: 8 KiB there and back take 1.8 us instead of 2.4 (Zen 4), whereas collectives would take longer.
  std::byte* claim_for_message(int to, int track, std::size_t bytes, std::size_t alignment, bool streams) noexcept {
    return claim_place(to, track, bytes, alignment, streams ? max_close_bytes_streaming : 2 * max_close_bytes);
  }
  void publish(int to, int track, std::size_t bytes, bool more, std::uint32_t tag) noexcept {
    sender& out = outgoing(to, track);
    if (out.claimed == payload::close) {
      *reinterpret_cast<std::uint64_t*>(out.next().line) = out.close_place;
      for (std::uint64_t k = 0; k < places_for(bytes); ++k) out.used[out.close_place + k] = out.published + 1;
    }
    send(to, out, bytes, more, out.claimed, tag);
  }

  // -- Sending without a copy: the receiver reads the sender's memory. After a claim.
  bool is_shared(void const* data, std::size_t bytes) const noexcept {
    auto const address = reinterpret_cast<std::uintptr_t>(data);
    return address >= reach_.begin && bytes <= reach_.end - reach_.begin &&
           address - reach_.begin <= reach_.end - reach_.begin - bytes;
  }
  // The address of shared memory, valid at all ranks.
  std::uint64_t shared_address(void const* data) const noexcept {
    return reinterpret_cast<std::uintptr_t>(data) - reach_.origin;
  }
  std::byte const* at_shared_address(std::uint64_t place) const noexcept {
    return reinterpret_cast<std::byte const*>(place + reach_.origin);
  }
  // `foreign`: the memory is not shared, so the receiver fetches it; only if pulls() holds.
  void publish_reference(int to, int track, void const* data, bool foreign, std::size_t bytes, bool more,
                         std::uint32_t tag) noexcept {
    sender& out = outgoing(to, track);
    *reinterpret_cast<std::uint64_t*>(out.next().line) =
        foreign ? reinterpret_cast<std::uintptr_t>(data) : shared_address(data);
    send(to, out, bytes, more, foreign ? payload::foreign : payload::reference, tag);
  }
  // The number of messages published to a peer, and whether it has released the first `count` of them.
  std::uint64_t published(int to, int track) noexcept { return outgoing(to, track).published; }
  bool consumed(int to, int track, std::uint64_t count) noexcept {
    sender& out = outgoing(to, track);
    if (out.consumed < count) refresh(out);
    return out.consumed >= count;
  }

  // -- Receiving: peek, use the view, release.
  arrival peek(int from, int track, std::uint32_t tag) noexcept {
    receiver& in = incoming(from, track);
    slot& head = in.channel->at(in.taken & (in.slots - 1));
    std::uint64_t const word = head.tag.load(std::memory_order_acquire);
    if (static_cast<std::uint32_t>(word) != static_cast<std::uint32_t>(in.taken + 1)) return {};
    arrival out{arrival::message, head.data, head.bytes, head.more != 0};
    if (word >> 32 != tag) out.state = arrival::mismatched;
    if (head.kind == payload::in_slot) return out;
    if (head.kind == payload::in_line) {
      out.data = head.line;
      return out;
    }
    if (head.kind == payload::close) {
      out.data = in.channel->close(in.slots, *reinterpret_cast<std::uint64_t const*>(head.line) % close_places);
      return out;
    }
    out.foreign = head.kind == payload::foreign;
    auto const place = *reinterpret_cast<std::uint64_t const*>(head.line);
    out.data =
        out.foreign ? reinterpret_cast<std::byte const*>(static_cast<std::uintptr_t>(place)) : at_shared_address(place);
    return out;
  }
  // Prefetches the line of a later message while this one is used, if messages arrive in a row.
  void prefetch(int from, int track) noexcept {
    receiver& in = incoming(from, track);
    __builtin_prefetch(&in.channel->at((in.taken + 2) & (in.slots - 1)));
  }
  // Fetches the place of a later message for writing, if messages leave in a row. Its receiver has read it last, and stores leave
  // the core in order, so one that misses its line delays all others. 8 bytes take 67 ns instead of 154 (Zen 4, cores that share
  // no cache), 512 bytes 170 instead of 390 (Granite Rapids). `bytes`: of that message, if it will lie in a slot.
  void prefetch_for_sending(int to, int track, std::size_t bytes) noexcept {
    sender& out = outgoing(to, track);
    bool const in_slot = out.claimed == payload::in_slot;
    slot& later = out.channel->at((out.published + (in_slot ? 1 : 3)) & (out.slots - 1));
    prefetch_for_writing(&later, cache_line);
    if (in_slot) prefetch_for_writing(later.data, bytes);
  }
  void release(int from, int track) noexcept {
    receiver& in = incoming(from, track);
    in.channel->consumed.store(++in.taken, std::memory_order_release);
    ring(from);
  }

  // Chooses how to copy to slots.
  store_gauge& gauge() noexcept { return gauge_; }

  // -- Waiting. A rank that is about to nap announces it, then checks once more before it sleeps. It sleeps briefly if it has other
  // work, for which no bell rings.
  template <class Ready>
  void nap(Ready&& ready, bool has_other_work = false) noexcept {
    rank_page& self = segment_.rank(rank_);
    self.asleep.store(1, std::memory_order_seq_cst);
    std::uint32_t const heard = self.bell.load(std::memory_order_seq_cst);
    if (!ready()) sleep_until_rung(heard, has_other_work);
    self.asleep.store(0, std::memory_order_relaxed);
  }
  // Wakes a peer that naps. There is no fence between the store that the peer waits for and this load: it would cost
  // every message 20 cycles or more, whereas a wake-up missed without it costs one nap.
  void ring(int peer) noexcept {
    rank_page& other = segment_.rank(peer);
    if (other.asleep.load(std::memory_order_relaxed) != 0) [[unlikely]]
      wake(other);
  }
  void wake_all() noexcept {
    for (int r = 0; r < ranks_; ++r)
      if (r != rank_) ring(r);
  }

  // This rank has finished with a round of packets. `wake`: peers may be waiting for that.
  void packets_read(std::uint64_t round, bool wake) noexcept {
    note_round(round);
    if (wake) wake_all();
  }

  // Whether this rank waits, and answers requests of peers at once. Only a hint: it may be busy by the time of a
  // request.
  void set_responsive(bool now) noexcept {
    segment_.rank(rank_).responsive.store(now ? 1 : 0, std::memory_order_relaxed);
  }
  bool is_responsive(int peer) const noexcept {
    return segment_.rank(peer).responsive.load(std::memory_order_relaxed) != 0;
  }

  // Tells the peers that this rank will make no more calls.
  void leave() noexcept;

  bool left(int peer) const noexcept {
    return segment_.rank(peer).status.load(std::memory_order_acquire) == presence::left;
  }
  // Survivors exclude the ranks that they continue without, for ever. A rank that is excluded finds all of them marked.
  void exclude(std::vector<int> const& gone) noexcept {
    for (int const r : gone) {
      auto none = exclusion::none;
      segment_.rank(r).excluded.compare_exchange_strong(none, exclusion::marked, std::memory_order_relaxed);
    }
    for (int const r : gone) segment_.rank(r).excluded.store(exclusion::complete, std::memory_order_release);
  }
  bool excluded(int rank) const noexcept {
    return segment_.rank(rank).excluded.load(std::memory_order_acquire) == exclusion::complete;
  }
  bool marked_as_excluded(int rank) const noexcept {
    return segment_.rank(rank).excluded.load(std::memory_order_relaxed) != exclusion::none;
  }
  // Names a peer in error messages.
  std::string describe(int peer) const;

  // Throws the error of a rank that waits for a peer to join a group, which votes instead. `lost`: whether the process of a rank has ended.
  [[noreturn, gnu::cold]] void report_vote(int peer, function_ref<bool(int)> lost) const;

  board notices() const noexcept { return {segment_, rank_}; }
  ballot votes() const noexcept { return {segment_, rank_, ranks_}; }

 protected:
  void attach(segment s, int tracks, readable_memory const& reach, patience how);

  // As if this many messages had gone through every channel, and as many rounds of packets. All ranks call it before
  // their first; tests let counters pass their limits.
  [[gnu::cold]] void skip(std::uint64_t count) noexcept;

  void allow_pulls(bool all_can) noexcept { pulls_ = all_can; }

 private:
  struct sender {
    tutti::detail::channel* channel = nullptr;
    std::uint64_t slots = 0;
    std::uint64_t published = 0;
    std::uint64_t consumed = 0;  // as last seen
    payload claimed = payload::in_slot;
    std::uint64_t close_place = 0;                   // the one that is claimed
    std::array<std::uint64_t, close_places> used{};  // how many messages the receiver has released once each is free

    slot& next() const { return channel->at(published & (slots - 1)); }
  };
  struct receiver {
    tutti::detail::channel* channel = nullptr;
    std::uint64_t slots = 0;
    std::uint64_t taken = 0;
  };

  sender& outgoing(int to, int track) noexcept { return outgoing_[static_cast<std::size_t>(track * ranks_ + to)]; }
  receiver& incoming(int from, int track) noexcept {
    return incoming_[static_cast<std::size_t>(track * ranks_ + from)];
  }

  static bool refresh(sender& out) noexcept {
    std::uint64_t const now = out.channel->consumed.load(std::memory_order_acquire);
    return std::exchange(out.consumed, now) != now;
  }
  // `longest_close`: the longest message that may lie in a close place.
  std::byte* claim_place(int to, int track, std::size_t bytes, std::size_t alignment,
                         std::size_t longest_close) noexcept {
    sender& out = outgoing(to, track);
    if (out.published - out.consumed == out.slots && !refresh(out)) return nullptr;
    slot& next = out.next();
    if (bytes <= inline_bytes && alignment <= alignof(std::max_align_t)) {
      out.claimed = payload::in_line;
      return next.line;
    }
    if (!on_mesh && bytes >= min_close_bytes && bytes <= longest_close && find_close_places(out, places_for(bytes))) {
      out.claimed = payload::close;
      return out.channel->close(out.slots, out.close_place);
    }
    out.claimed = payload::in_slot;
    return next.data;
  }
  // Neighbours make room for a message that is longer than one of them.
  static std::uint64_t places_for(std::size_t bytes) noexcept { return bytes > max_close_bytes ? 2 : 1; }
  // Finds the first `count` neighbours whose last messages the receiver has released.
  static bool find_close_places(sender& out, std::uint64_t count) noexcept {
    if (out.consumed != out.published) refresh(out);
    auto const free = [&out](std::uint64_t place) {
      return static_cast<std::int64_t>(out.consumed - out.used[place]) >= 0;
    };
    for (out.close_place = 0; out.close_place < close_places; out.close_place += count)
      if (free(out.close_place) && free(out.close_place + count - 1)) return true;
    return false;
  }
  void send(int to, sender& out, std::size_t bytes, bool more, payload kind, std::uint32_t tag) noexcept {
    slot& next = out.next();
    next.bytes = static_cast<std::uint32_t>(bytes);
    next.kind = kind;
    next.more = more;
    ++out.published;
    std::uint64_t const word = std::uint64_t{tag} << 32 | static_cast<std::uint32_t>(out.published);
    next.tag.store(word, std::memory_order_release);
    ring(to);
  }

  // Notes the core of this rank and looks at those that others have noted.
  [[gnu::cold]] static bool share_core(void const* self) noexcept;
  // Sleeps until this rank's bell rings again after `heard` rings, or a nap is over.
  [[gnu::cold]] void sleep_until_rung(std::uint32_t heard, bool briefly) noexcept;
  [[gnu::cold]] static void wake(rank_page& other) noexcept;

  readable_memory reach_;
  patience waits_ = patience_with_cores;
  bool pulls_ = false;
  store_gauge gauge_;
  std::vector<sender> outgoing_;
  std::vector<receiver> incoming_;
};

}  // namespace tutti::detail

#if !defined(TUTTI_COMPILED)
#include "tutti/transport/shared_memory/mailbox_impl.hpp"
#endif
