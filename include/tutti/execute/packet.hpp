// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The execution of one_shot for small messages over shared memory: a rank shows its message to all ranks that need it, one cache
// line at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>

#include "tutti/core/wait.hpp"
#include "tutti/execute/one_step.hpp"
#include "tutti/transport/cache_lines.hpp"
#include "tutti/transport/concept.hpp"

namespace tutti::detail {

// The room for one rank's message in an inbox, which has as much for each rank.
inline constexpr std::size_t packet_stride = (max_packet_bytes + cache_line - 1) / cache_line * cache_line;

// A flag shares each line with 56 bytes of data, so a reader learns "arrived" and has the data with one coherence
// transfer, and a message is written once, whatever the number of readers. The lines go round in a few sets, a round a
// call. A rank shows round n only when all others are done with round n - (number of sets), which it knows without a look from
// every packet of theirs that it read since: whoever shows a round has read all of the rounds before.
template <collective C, transport Transport>
class packet_execution : public one_step<C> {
  static_assert(shares_packets<Transport>);

 public:
  packet_execution(Transport& transport, shape s, std::byte const* in, std::byte* out, std::size_t chunk,
                   byte_body body, std::uint32_t tag, std::byte* inbox)
      : one_step<C>(transport.rank(), s, in, out, chunk, body, tag),
        transport_(transport),
        inbox_(inbox),
        round_(transport.next_round()),
        word_(std::uint64_t{tag} << 32 | (static_cast<std::uint32_t>(round_) << 1 | 1)) {
    if (combines_values && body.prepares()) prepare();
  }

  progress poll();

 private:
  using base = one_step<C>;
  using base::body_, base::rank_, base::ranks_, base::in_, base::chunk_, base::step_, base::violation_;
  using base::dealt, base::combines_values, base::sends, base::hears, base::contributes;

  // Up to this size, a rank fetches the lines of its next message for writing while their last readers still hold them. 8 bytes
  // take 0.12 us instead of 0.15 (Zen 4), and 0.20 instead of 0.35 between cores that share no cache. Longer messages gain only
  // if a root is ahead of its readers: 2 KiB take 0.3 us instead of 0.6 (Granite Rapids).
  static constexpr std::size_t max_bytes_fetched = 1024;
  // Up to this size, lines are demoted, unless there is only one: 512 bytes back to back take 0.21 to 0.32 us instead of 0.25 to 0.37,
  // and 2 KiB would take up to 1.2 times as long (Emerald Rapids).
  static constexpr std::size_t max_bytes_demoted = 512;
  // Not every rank receives from every other: a rank may get far ahead of those that it receives nothing from, until they tell
  // it that they have read.
  static constexpr bool far = !all_hear_all(C);
  // So many lines are prefetched while one is read: an all_reduce of 2 KiB takes 0.95 us, without it 1.14. Fewer where not all
  // ranks send, because a reader that waits takes away lines that are about to be written: a gather of 4 KiB takes 0.21 us
  // instead of 0.29, back to back.
  static constexpr int lines_ahead = far ? 4 : 8;

  bool show() noexcept {
    if (sends() && !transport_.packets_writable(round_, far)) return false;
    shown_ = true;
    if (!sends()) return true;
    std::size_t const bytes = shown_bytes();
    packet* line = transport_.packets(rank_, round_, far);
    bool const demotes = on_mesh && bytes > packet_bytes && bytes <= max_bytes_demoted;
    std::size_t const own = dealt ? chunk_ * static_cast<std::size_t>(rank_) : 0;
    for (std::size_t done = 0; done == 0 || done < bytes; done += packet_bytes, ++line) {
      // Nobody reads a line that holds only this rank's own block.
      if (dealt && done >= own && done + packet_bytes <= own + chunk_) continue;
      copy_line(line->data, in_ + done, bytes - done);
      line->tag.store(word_, std::memory_order_release);
      if (demotes) demote(line, cache_line);
    }
    if constexpr (far) fetch_next_lines();
    transport_.wake_all();
    return true;
  }

  // Short messages: only once all have read these lines. Long ones: if readers lag, although one of them may still need the lines.
  void fetch_next_lines() noexcept {
    std::size_t const bytes = shown_bytes();
    bool const pays = bytes <= max_bytes_fetched ? !far || transport_.packets_known_read(round_ + 1)
                                                 : far && transport_.readers_lag();
    if (pays) transport_.prefetch_packets(round_ + 1, far, (bytes + packet_bytes - 1) / packet_bytes);
  }

  // This rank's part of a peer's message.
  bool read(int peer) noexcept {
    std::size_t const size = chunk_, begin = dealt ? size * static_cast<std::size_t>(rank_) : 0;
    std::byte* const to = combines_values ? arrived(peer) : base::place_of(peer);
    packet const* const lines = transport_.packets(peer, round_, far);
    do {
      std::size_t const at = begin + read_, within = at % packet_bytes;
      packet const* const line = lines + at / packet_bytes;
      std::uint64_t const word = line->tag.load(std::memory_order_acquire);
      if (word != word_) {
        waited_ = true;
        if (static_cast<std::uint32_t>(word) == static_cast<std::uint32_t>(word_))
          violation_ = protocol_violation{.peer = peer, .other_call = true};
        return false;
      }
      __builtin_prefetch(line + lines_ahead);
      if (!dealt || within == 0) {
        copy_line(to + read_, line->data, size - read_);
        read_ += packet_bytes;
      } else {
        std::size_t const left = size - read_, n = packet_bytes - within;
        std::memcpy(to + read_, line->data + within, n < left ? n : left);
        read_ += n;
      }
    } while (read_ < size);
    // A peer that is ahead has shown the next round as well. If this rank waited, the peer is about to write it.
    if constexpr (far)
      if (!std::exchange(waited_, false))
        __builtin_prefetch(transport_.packets(peer, round_ + 1, true) + begin / packet_bytes);
    transport_.packets_seen(peer, round_);
    return true;
  }

  void finish() {
    // All ranks have shown this round, so they have read this rank's lines of the round before.
    if constexpr (!far) fetch_next_lines();
    if (C != collective::barrier && chunk_ > 0) {
      if constexpr (!combines_values) base::keep_own();
      else if (hears()) base::combine(false, [this](int peer) { return arrived(peer); });
    }
    transport_.packets_read(round_, far);
  }

  std::size_t shown_bytes() const noexcept { return chunk_ * static_cast<std::size_t>(dealt ? ranks_ : 1); }
  // Where a peer's values stay until all are combined.
  std::byte* arrived(int peer) const noexcept { return inbox_ + static_cast<std::size_t>(peer) * packet_stride; }

  // A rank shows and contributes what op.prepare makes of its input.
  void prepare() {
    if (!sends() && !contributes()) return;
    std::byte* const prepared = arrived(rank_);
    body_(&in_, 1, &prepared, 1, shown_bytes(), stage{.prepare = 0});
    in_ = prepared;
  }

  // A full line is copied by a constant number of bytes, which compiles to instructions instead of a call: 0.57 us for 1 KiB
  // instead of 0.97.
  static void copy_line(std::byte* to, std::byte const* from, std::size_t bytes) noexcept {
    if (bytes >= packet_bytes) std::memcpy(to, from, packet_bytes);
    else if (bytes > 0) std::memcpy(to, from, bytes);
  }

  Transport& transport_;
  std::byte* inbox_;
  std::uint64_t round_;
  std::uint64_t word_;  // the flag of this round, never that of an unused line
  bool shown_ = false;
  std::size_t read_ = 0;
  bool waited_ = false;
};

// Outside the class, where `extern template` keeps other programs from compiling it.
template <collective C, transport Transport>
progress packet_execution<C, Transport>::poll() {
  if (!shown_ && !show()) return progress::stuck;
  bool const all = base::for_each_source([this](int peer) {
    if (!read(peer)) return false;
    read_ = 0;
    return true;
  });
  if (!all) return violation_ ? progress::done : progress::stuck;
  finish();
  return progress::done;
}

}  // namespace tutti::detail
