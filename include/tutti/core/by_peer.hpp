// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What a rank keeps of each peer, made when it is first asked for: a rank among many talks to few of them.
#pragma once

#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

namespace tutti::detail {

template <class T>
class by_peer {
 public:
  explicit by_peer(int ranks) : all_(static_cast<std::size_t>(ranks)) {}

  // Throws bad_alloc if it is made now.
  T& of(int rank) {
    std::unique_ptr<T> const& made = all_[static_cast<std::size_t>(rank)];
    if (made == nullptr) [[unlikely]]
      make(rank);
    return *made;
  }
  // The ranks for which it was made, in that order.
  std::vector<int> const& known() const noexcept { return known_; }
  void reset() noexcept {
    for (int const rank : known_) *all_[static_cast<std::size_t>(rank)] = T{};
  }

 private:
  [[gnu::cold, gnu::noinline]] void make(int rank) {
    auto made = std::make_unique<T>();
    known_.push_back(rank);
    all_[static_cast<std::size_t>(rank)] = std::move(made);
  }

  std::vector<std::unique_ptr<T>> all_;
  std::vector<int> known_;
};

}  // namespace tutti::detail
