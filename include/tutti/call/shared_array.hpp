// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// shared_array: memory of a communicator that its ranks read in place.
#pragma once

#include <algorithm>
#include <cstddef>
#include <limits>
#include <memory>
#include <utility>

#include "tutti/call/engine.hpp"
#include "tutti/reduce/types.hpp"
#include "tutti/transport/concept.hpp"

namespace tutti {

// An array that peers can read in place, returned by communicator::allocate. A contiguous range; movable. Its memory
// ends with its communicator, if it does not end before.
template <element T, transport Transport>
class TUTTI_NODISCARD("the array is freed at once if it is dropped") shared_array {
 public:
  // Counts beyond a quarter of the address space are clamped to it, so that bytes() cannot overflow; allocate() then throws bad_alloc.
  shared_array(detail::engine<Transport>& owner, std::size_t count)
      : owner_(owner.reference()), size_(std::min(count, std::numeric_limits<std::size_t>::max() / 4 / sizeof(T))) {
    data_ = reinterpret_cast<T*>(owner.transport().allocate(bytes()));
    if constexpr (can_own) is_owned_ = owner.transport().owns_allocations();
    std::uninitialized_value_construct_n(data_, size_);
  }
  shared_array(shared_array&& other) noexcept
      : owner_(std::move(other.owner_)),
        data_(std::exchange(other.data_, nullptr)),
        size_(std::exchange(other.size_, 0)),
        is_owned_(other.is_owned_) {}
  shared_array& operator=(shared_array&& other) noexcept {
    std::swap(owner_, other.owner_);
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    std::swap(is_owned_, other.is_owned_);
    return *this;
  }
  ~shared_array() {
    if (data_ == nullptr) return;
    auto* const memory = reinterpret_cast<std::byte*>(data_);
    if (auto const owner = owner_.lock()) {
      if (owner->process.is_this()) owner->transport().deallocate(memory, bytes());
    } else if constexpr (can_own) {
      if (!is_owned_) Transport::deallocate_alone(memory);
    } else {
      Transport::deallocate(memory, bytes());
    }
  }

  T* data() const noexcept { return data_; }
  std::size_t size() const noexcept { return size_; }
  T* begin() const noexcept { return data_; }
  T* end() const noexcept { return data_ + size_; }
  T& operator[](std::size_t i) const noexcept { return data_[i]; }

 private:
  static constexpr bool can_own = requires(Transport const& t) { t.owns_allocations(); };

  std::size_t bytes() const { return size_ * sizeof(T); }

  std::weak_ptr<detail::engine<Transport>> owner_;
  T* data_ = nullptr;
  std::size_t size_ = 0;
  bool is_owned_ = false;  // by the transport, with which it ends
};

}  // namespace tutti
