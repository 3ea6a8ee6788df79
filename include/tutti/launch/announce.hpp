// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Messages between ranks that have not made a call yet.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "tutti/call/engine.hpp"
#include "tutti/core/function_ref.hpp"
#include "tutti/core/shape.hpp"
#include "tutti/core/text.hpp"
#include "tutti/core/wait.hpp"

namespace tutti::detail {

// Polls until done. Throws if it takes too long, or if a rank has ended that `awaits` says is needed. `what` names the data that
// rank `from` owes, for the error message.
template <class Transport>
[[gnu::cold]] void wait_beside_calls(engine<Transport>& on, int from, std::string_view what,
                                     function_ref<progress()> poll, function_ref<bool(int)> awaits) {
  auto& transport = on.transport();
  int gone = -1;
  bool const done = wait_until_done(poll, transport.waits(), countdown(on.environment.timeout), [&](auto const& ready) {
    transport.nap([] { return false; });  // a poll could throw, and nap() is noexcept
    on.expect_no_fault({});
    for (int peer = 0; peer < on.ranks(); ++peer)
      if (peer != on.rank() && awaits(peer) && (transport.left(peer) || transport.lost(peer))) gone = peer;
    return gone < 0 || ready();
  });
  if (!done)
    throw error({.code = gone < 0 ? error_code::timeout : error_code::rank_lost,
                 .rank = on.rank(),
                 .peer = gone < 0 ? from : gone,
                 .what = gone < 0
                             ? join({"rank ", from, " has not sent its ", what})
                             : join({"rank ", gone, " ended before the ranks had agreed on how to choose algorithms"}),
                 .way_out = "check the output of that rank"});
  on.expect_no_fault({});
}

// Sends slices of a message, of which `sent` bytes have been sent, as long as there is room for them.
template <class Transport>
progress send_slices(Transport& transport, int to, std::span<std::byte const> message, std::size_t& sent,
                     std::uint32_t tag) noexcept {
  for (std::size_t const before = sent; sent < message.size();) {
    std::size_t const bytes = std::min(message.size() - sent, Transport::slice_bytes);
    std::byte* const place = transport.claim(to, 0, bytes, 1);
    if (place == nullptr) return sent > before ? progress::moved : progress::stuck;
    std::memcpy(place, message.data() + sent, bytes);
    sent += bytes;
    transport.publish(to, 0, bytes, sent < message.size(), tag);
  }
  if constexpr (needs_sender_progress<Transport>)
    if (!transport.all_sent()) return progress::stuck;
  return progress::done;
}

// Calls take(data, bytes) for the slices of a message that have arrived.
template <class Transport, class Take>
progress receive_slices(Transport& transport, int from, std::uint32_t tag, Take&& take) {
  for (progress out = progress::stuck;; out = progress::moved) {
    arrival const a = transport.peek(from, 0, tag);
    if (!a) return out;
    take(a.data, a.bytes);
    transport.release(from, 0);
    if (!a.more) return progress::done;
  }
}

// Broadcasts a text of one rank along a binomial tree, so that each rank has at most log2 p channels afterwards. Leaves the
// channels empty.
template <class Transport>
class announcement {
 public:
  announcement(Transport& transport, int from, std::string text)
      : transport_(transport), text_(std::move(text)), complete_(transport.rank() == from) {
    int const ranks = transport.ranks(), own = wrap(transport.rank() - from, ranks);
    parent_ = wrap((own & (own - 1)) + from, ranks);
    for (int bit = 1; own + bit < ranks && (own & bit) == 0; bit *= 2)
      children_[child_count_++] = {wrap(own + bit + from, ranks), 0};
  }

  [[gnu::cold]] progress poll() { return complete_ || receive() ? send() : progress::stuck; }
  // Whether the announcement cannot end without this rank.
  bool awaits(int peer) const noexcept {
    if (!complete_) return peer == parent_;
    for (int k = 0; k < child_count_; ++k)
      if (children_[k].rank == peer) return children_[k].sent < text_.size();
    return false;
  }
  std::string take() { return std::move(text_); }

 private:
  static constexpr std::uint32_t tag = 0x74756e65;

  progress send() noexcept {
    progress out = progress::done;
    for (int k = child_count_; k-- > 0;)  // the largest subtree first
      if (send_slices(transport_, children_[k].rank, std::as_bytes(std::span(text_)), children_[k].sent, tag) !=
          progress::done)
        out = progress::stuck;
    return out;
  }
  // Whether all has been received.
  bool receive() {
    auto const append = [&](std::byte const* data, std::size_t bytes) {
      text_.append(reinterpret_cast<char const*>(data), bytes);
    };
    complete_ = receive_slices(transport_, parent_, tag, append) == progress::done;
    return complete_;
  }

  struct child {
    int rank;
    std::size_t sent;  // bytes
  };

  Transport& transport_;
  std::string text_;
  bool complete_;
  int parent_ = 0;
  int child_count_ = 0;
  child children_[std::numeric_limits<int>::digits];  // one for each bit of a rank, the smallest subtree first
};

// Returns the text of rank `from` at all ranks. All ranks call it, before their first call.
template <class Transport>
[[gnu::cold]] std::string announce(engine<Transport>& on, int from, std::string text, std::string_view what) {
  announcement<Transport> work(on.transport(), from, std::move(text));
  wait_beside_calls(on, from, what, [&] { return work.poll(); }, [&](int peer) { return work.awaits(peer); });
  return work.take();
}

}  // namespace tutti::detail
