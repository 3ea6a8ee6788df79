// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Receives whose messages come in slices.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "tutti/execute/transfer.hpp"

namespace tutti::detail {

// Those with an address could be read in their sender's memory instead, if the slices do not come. Address and source stay as
// they are while one is here.
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
    std::ranges::fill(peers_, counts{});
    readable_ = 0;
  }

  transfer* find(std::uint64_t id) const {
    auto const at = std::ranges::find(receives_, id, &transfer::id);
    return at == receives_.end() ? nullptr : *at;
  }
  transfer* find_readable(int from) const {
    auto const at = std::ranges::find_if(receives_, [&](transfer* r) { return r->source == from && r->address != 0; });
    return at == receives_.end() ? nullptr : *at;
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
