// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Receives whose messages arrive in slices.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "tutti/execute/transfer.hpp"

namespace tutti::detail {

// A receive with an address is readable: if its slices do not arrive, its message can be fetched from the sender's memory.
// Address and source must not change while a receive is listed here.
class sliced_receives {
 public:
  // `slice`: bytes of a message in each slice; `room`: slices that a sender can send before any is received.
  sliced_receives(int peers, std::size_t slice, std::size_t room)
      : peers_(static_cast<std::size_t>(peers)), slice_(slice), room_(room) {}

  void add(transfer& r) {
    receives_.push_back(&r);
    count(r, 1);
  }
  void remove(transfer& r) {
    std::erase(receives_, &r);
    count(r, -1);
  }
  // A slice of n bytes has arrived.
  void store(transfer& r, std::size_t n) noexcept {
    std::size_t const before = slices_of(r);
    r.moved += n;
    change(of(r.source).slices, slices_of(r) - before);
  }
  void clear() {
    receives_.clear();
    std::fill(peers_.begin(), peers_.end(), counts{});
    readable_ = exceeded_ = 0;
  }

  transfer* find(std::uint64_t id) const {
    for (transfer* const r : receives_)
      if (r->id == id) return r;
    return nullptr;
  }
  transfer* find_readable(int from) const {
    for (transfer* const r : receives_)
      if (r->source == from && r->address != 0) return r;
    return nullptr;
  }
  bool any(int from) const noexcept { return !receives_.empty() && of(from).all > 0; }
  bool any_readable() const noexcept { return readable_ > 0; }
  // Whether a sender has been asked for more slices than it can send before some are received.
  bool exceed_room() const noexcept { return exceeded_ > 0; }
  bool any_readable(int from) const noexcept { return readable_ > 0 && of(from).readable > 0; }

 private:
  struct counts {
    int all = 0, readable = 0;
    std::size_t slices = 0;  // that have not arrived
  };

  counts const& of(int from) const noexcept { return peers_[static_cast<std::size_t>(from)]; }
  counts& of(int from) noexcept { return peers_[static_cast<std::size_t>(from)]; }
  std::size_t slices_of(transfer const& r) const noexcept { return (r.got - r.moved + slice_ - 1) / slice_; }
  void change(std::size_t& slices, std::size_t more) noexcept {
    exceeded_ -= slices > room_;
    slices += more;
    exceeded_ += slices > room_;
  }
  void count(transfer const& r, int one) noexcept {
    counts& from = of(r.source);
    from.all += one;
    change(from.slices, static_cast<std::size_t>(one) * slices_of(r));
    if (r.address == 0) return;
    from.readable += one;
    readable_ += one;
  }

  std::vector<transfer*> receives_;
  std::vector<counts> peers_;
  std::size_t slice_, room_;
  int readable_ = 0;
  int exceeded_ = 0;  // peers
};

}  // namespace tutti::detail
