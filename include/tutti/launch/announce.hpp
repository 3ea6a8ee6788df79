// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Messages between ranks that have not made a call yet.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tutti/call/engine.hpp"
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
    transport.nap(ready);
    on.expect_no_fault();
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
  on.expect_no_fault();
}

// Broadcasts a text of one rank by one message to each of the others. Leaves the channels empty.
template <class Transport>
class announcement final : public early_work {
 public:
  announcement(Transport& transport, int from, std::string text)
      : transport_(transport),
        from_(from),
        text_(std::move(text)),
        sent_(static_cast<std::size_t>(transport.ranks())) {}

  [[gnu::cold]] progress poll() override { return transport_.rank() == from_ ? send() : receive(); }
  bool awaits(int peer) const noexcept override {
    return transport_.rank() == from_ ? sent_[static_cast<std::size_t>(peer)] < text_.size() : peer == from_;
  }
  std::string take() { return std::move(text_); }

 private:
  static constexpr std::uint32_t tag = 0x74756e65;

  progress send() noexcept {
    progress out = progress::done;
    for (int peer = 0; peer < transport_.ranks(); ++peer) {
      if (peer == from_) continue;
      std::size_t& sent = sent_[static_cast<std::size_t>(peer)];
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
  progress receive() {
    while (!complete_) {
      arrival const a = transport_.peek(from_, 0, tag);
      if (!a) return progress::stuck;
      text_.append(reinterpret_cast<char const*>(a.data), a.bytes);
      complete_ = !a.more;
      transport_.release(from_, 0);
    }
    return progress::done;
  }

  Transport& transport_;
  int from_;
  std::string text_;
  std::vector<std::size_t> sent_;  // bytes, to each peer
  bool complete_ = false;
};

// Returns the text of rank `from` at all ranks. All ranks call it, before their first call.
template <class Transport>
[[gnu::cold]] std::string announce(engine<Transport>& on, int from, std::string text, std::string_view what) {
  announcement<Transport> work(on.transport(), from, std::move(text));
  wait_beside_calls(on, from, what, work);
  return work.take();
}

}  // namespace tutti::detail
