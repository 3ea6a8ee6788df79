// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A queue in one array: once the array has grown it allocates nothing, unlike std::deque, which allocates again every
// few elements.
#pragma once

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

namespace tutti::detail {

template <class T>
class fifo {
 public:
  bool empty() const noexcept { return all_.empty(); }
  std::size_t size() const noexcept { return all_.size() - first_; }
  T& front() noexcept { return all_[first_]; }
  auto begin() noexcept { return all_.begin() + static_cast<std::ptrdiff_t>(first_); }
  auto end() noexcept { return all_.end(); }

  void push_back(T element) {
    // Moves at most one element for each that was removed.
    if (all_.size() == all_.capacity() && first_ >= all_.size() / 2) {
      all_.erase(all_.begin(), begin());
      first_ = 0;
    }
    all_.push_back(std::move(element));
  }
  void pop_front() {
    [[maybe_unused]] T const gone(std::move(front()));
    if (++first_ == all_.size()) clear();
  }
  void erase(typename std::vector<T>::iterator at) {
    if (at == begin()) pop_front();
    else all_.erase(at);
  }
  // Erases the first `most` elements for which which(element) holds. Those at the front are found without a look at the others.
  template <class Which>
  void erase_if(std::size_t most, Which&& which) {
    for (; most > 0 && !empty() && which(front()); --most) pop_front();
    if (most == 0 || empty()) return;
    auto const goes = [&](T& element) {
      bool const found = most > 0 && which(element);
      most -= found;
      return found;
    };
    all_.erase(std::remove_if(begin() + 1, end(), goes), end());
  }
  void clear() noexcept {
    all_.clear();
    first_ = 0;
  }

 private:
  std::vector<T> all_;
  std::size_t first_ = 0;  // elements before it were removed; less than the size, or 0
};

}  // namespace tutti::detail
