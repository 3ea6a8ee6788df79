// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Which receive gets which message: those that have not met.
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "tutti/core/fifo.hpp"
#include "tutti/execute/transfer.hpp"
#include "tutti/message/head.hpp"

namespace tutti::detail {

// A message that came, or was offered, before a receive for it.
struct kept_message {
  int from;
  message_head front;
  std::unique_ptr<std::byte[]> data;
  transfer* own;  // the send, where it waits at this very rank
};

// Both in their order. A message goes to the first receive that fits, a receive takes the first message that fits.
class matching {
 public:
  explicit matching(int ranks) : from_(static_cast<std::size_t>(ranks)) {}

  // The receive for a message, which waits no more; null where there is none.
  transfer* find_receive(int from, int tag) {
    auto const at = std::ranges::find_if(receives_, [&](transfer* r) { return fits(*r, from, tag); });
    if (at == receives_.end()) return nullptr;
    transfer* const out = *at;
    receives_.erase(at);
    --waiting_for(*out);
    return out;
  }
  std::optional<kept_message> find_message(transfer const& r) {
    auto const at =
        std::ranges::find_if(messages_, [&](kept_message const& k) { return fits(r, k.from, k.front.tag); });
    if (at == messages_.end()) return {};
    std::optional<kept_message> out(std::move(*at));
    messages_.erase(at);
    return out;
  }

  void add(transfer& r) {
    receives_.push_back(&r);
    ++waiting_for(r);
  }
  void add(kept_message&& m) { messages_.push_back(std::move(m)); }

  bool awaits(int from) const { return any_ > 0 || from_[static_cast<std::size_t>(from)] > 0; }

  void clear() noexcept {
    receives_.clear();
    messages_.clear();
    std::ranges::fill(from_, 0);
    any_ = 0;
  }

 private:
  static bool fits(transfer const& r, int from, int tag) {
    return (r.peer == any_source || r.peer == from) && (r.tag == any_tag || r.tag == tag);
  }
  int& waiting_for(transfer const& r) { return r.peer == any_source ? any_ : from_[static_cast<std::size_t>(r.peer)]; }

  std::vector<transfer*> receives_;
  fifo<kept_message> messages_;
  std::vector<int> from_;  // receives from each rank
  int any_ = 0;            // and from any
};

}  // namespace tutti::detail
