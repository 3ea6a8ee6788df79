// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Messages between ranks that have not made a call yet.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <string_view>
#include <utility>

#include "tutti/call/engine.hpp"
#include "tutti/core/shape.hpp"
#include "tutti/core/text.hpp"
#include "tutti/core/wait.hpp"

namespace tutti::detail {

// Messages among the ranks of a communicator before its first call. Its functions are virtual, so that a program compiles
// one wait for all kinds of work.
class early_work {
 public:
  virtual progress poll() = 0;
  virtual bool awaits(int peer) const noexcept = 0;  // whether the work cannot end without this rank

 protected:
  ~early_work() = default;
};

// Polls until done. Throws if it takes too long, or if a rank that the work awaits has ended. `what` names the data that
// rank `from` owes, for the error message.
template <class Transport>
[[gnu::cold]] void wait_beside_calls(engine<Transport>& on, int from, std::string_view what, early_work& work) {
  auto& transport = on.transport();
  int gone = -1;
  auto const poll = [&] { return work.poll(); };
  bool const done = wait_until_done(poll, transport.waits(), countdown(on.environment.timeout), [&](auto const& ready) {
    transport.nap([] { return false; });  // a poll could throw, and nap() is noexcept
    on.expect_no_fault({});
    for (int peer = 0; peer < on.ranks(); ++peer)
      if (peer != on.rank() && work.awaits(peer) && (transport.left(peer) || transport.lost(peer))) gone = peer;
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

// Broadcasts a text of one rank along a binomial tree, so that each rank has at most log2 p channels afterwards. Leaves the
// channels empty.
template <class Transport>
class announcement final : public early_work {
 public:
  announcement(Transport& transport, int from, std::string text)
      : transport_(transport), text_(std::move(text)), complete_(transport.rank() == from) {
    int const ranks = transport.ranks(), own = wrap(transport.rank() - from, ranks);
    parent_ = wrap((own & (own - 1)) + from, ranks);
    for (int bit = 1; own + bit < ranks && (own & bit) == 0; bit *= 2)
      children_[child_count_++] = {wrap(own + bit + from, ranks), 0};
  }

  [[gnu::cold]] progress poll() override { return complete_ || receive() ? send() : progress::stuck; }
  bool awaits(int peer) const noexcept override {
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
    for (int k = child_count_; k-- > 0;) {  // the largest subtree first
      auto& [peer, sent] = children_[k];
      while (sent < text_.size()) {
        std::size_t const bytes = std::min(text_.size() - sent, Transport::slice_bytes);
        std::byte* const place = transport_.claim(peer, 0, bytes, 1);
        if (place == nullptr) {
          out = progress::stuck;
          break;
        }
        std::memcpy(place, text_.data() + sent, bytes);
        sent += bytes;
        transport_.publish(peer, 0, bytes, sent < text_.size(), tag);
      }
    }
    if constexpr (needs_sender_progress<Transport>)
      if (!transport_.all_sent()) out = progress::stuck;
    return out;
  }
  // Whether all has been received.
  bool receive() {
    while (!complete_) {
      arrival const a = transport_.peek(parent_, 0, tag);
      if (!a) return false;
      text_.append(reinterpret_cast<char const*>(a.data), a.bytes);
      complete_ = !a.more;
      transport_.release(parent_, 0);
    }
    return true;
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
  wait_beside_calls(on, from, what, work);
  return work.take();
}

}  // namespace tutti::detail
