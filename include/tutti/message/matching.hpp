// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Receives, messages and probes that have not been matched yet.
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "tutti/core/fifo.hpp"
#include "tutti/fault/transfer.hpp"
#include "tutti/message/head.hpp"

namespace tutti::detail {

// A message that arrived, or was offered, before a matching receive was started.
struct kept_message {
  int from;
  message_head front;
  std::unique_ptr<std::byte[]> data;
  transfer* local_send;  // of this rank to itself, if it still waits; else null
};

// Both queues keep their order: a message goes to the first receive that matches it, and a receive takes the first message
// that matches. A probe ends with the first message that matches it and no receive, and leaves it there.
class matching {
 public:
  explicit matching(int ranks) : from_rank_(static_cast<std::size_t>(ranks)) {}

  // Removes and returns the receive for a message; null if there is none.
  transfer* take_receive(int from, int tag) {
    if (receives_.empty()) return nullptr;
    if (transfer* const first = receives_.front(); matches(*first, from, tag)) [[likely]] {
      receives_.pop_front();
      --waiting_for(*first);
      return first;
    }
    return take_later_receive(from, tag);
  }
  // The same for a probe.
  transfer* take_probe(int from, int tag) {
    auto const fits = [&](transfer const* p) { return matches(*p, from, tag); };
    auto const at = std::find_if(probes_.begin(), probes_.end(), fits);
    if (at == probes_.end()) return nullptr;
    transfer* const out = *at;
    withdraw(*out);
    return out;
  }
  std::optional<kept_message> take_message(transfer const& r) {
    if (messages_.empty()) [[likely]]
      return {};
    return take_kept_message(r);
  }
  kept_message const* find_message(transfer const& probe) {
    for (kept_message const& k : messages_)
      if (matches(probe, k.from, k.front.tag)) return &k;
    return nullptr;
  }

  // The first message from this rank, or from any_source, that no receive has matched.
  kept_message const* find_unmatched(int from) { return find_message({.tag = any_tag, .peer = from}); }
  fifo<kept_message>& messages() noexcept { return messages_; }

  bool empty() const noexcept { return receives_.empty() && messages_.empty() && probes_.empty(); }
  void add(transfer& r) {
    receives_.push_back(&r);
    ++waiting_for(r);
  }
  void add_probe(transfer& p) {
    probes_.push_back(&p);
    ++waiting_for(p);
  }
  void withdraw(transfer& probe) {
    std::erase(probes_, &probe);
    --waiting_for(probe);
  }
  void add(kept_message&& m) { messages_.push_back(std::move(m)); }

  bool awaits_any() const { return from_any_ > 0; }
  bool awaits(int from) const { return from_any_ > 0 || from_rank_[static_cast<std::size_t>(from)] > 0; }

  void clear() noexcept {
    receives_.clear();
    messages_.clear();
    probes_.clear();
    std::fill(from_rank_.begin(), from_rank_.end(), 0);
    from_any_ = 0;
  }

 private:
  [[gnu::noinline]] std::optional<kept_message> take_kept_message(transfer const& r) {
    auto const fits = [&](kept_message const& k) { return matches(r, k.from, k.front.tag); };
    auto const at = std::find_if(messages_.begin(), messages_.end(), fits);
    if (at == messages_.end()) return {};
    std::optional<kept_message> out(std::move(*at));
    messages_.erase(at);
    return out;
  }
  transfer* take_later_receive(int from, int tag) {
    auto const fits = [&](transfer const* r) { return matches(*r, from, tag); };
    auto const at = std::find_if(receives_.begin() + 1, receives_.end(), fits);
    if (at == receives_.end()) return nullptr;
    transfer* const out = *at;
    receives_.erase(at);
    --waiting_for(*out);
    return out;
  }
  static bool matches(transfer const& r, int from, int tag) {
    return (r.peer == any_source || r.peer == from) && (r.tag == any_tag || r.tag == tag);
  }
  int& waiting_for(transfer const& r) {
    return r.peer == any_source ? from_any_ : from_rank_[static_cast<std::size_t>(r.peer)];
  }

  fifo<transfer*> receives_;
  fifo<kept_message> messages_;
  std::vector<transfer*> probes_;
  std::vector<int> from_rank_;  // number of receives and probes for each rank
  int from_any_ = 0;            // and for any_source
};

}  // namespace tutti::detail
