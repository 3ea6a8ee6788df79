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
  explicit sliced_receives(int peers) : peers_(static_cast<std::size_t>(peers)) {}

  void add(transfer& r) {
    receives_.push_back(&r);
    count(r, 1);
  }
  void remove(transfer& r) {
    std::erase(receives_, &r);
    count(r, -1);
  }
  void clear() {
    receives_.clear();
    std::fill(peers_.begin(), peers_.end(), counts{});
    readable_ = 0;
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
  bool any_readable(int from) const noexcept { return readable_ > 0 && of(from).readable > 0; }

 private:
  struct counts {
    int all = 0, readable = 0;
  };

  counts const& of(int from) const noexcept { return peers_[static_cast<std::size_t>(from)]; }
  void count(transfer const& r, int one) noexcept {
    counts& from = peers_[static_cast<std::size_t>(r.source)];
    from.all += one;
    if (r.address == 0) return;
    from.readable += one;
    readable_ += one;
  }

  std::vector<transfer*> receives_;
  std::vector<counts> peers_;
  int readable_ = 0;
};

}  // namespace tutti::detail
