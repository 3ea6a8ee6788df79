// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A group of ranks that call collectives together.
#pragma once

#include <cstddef>
#include <limits>
#include <memory>
#include <new>
#include <utility>

#include "tutti/collective/group.hpp"
#include "tutti/core/error.hpp"
#include "tutti/reduce/types.hpp"
#include "tutti/transport/concept.hpp"

namespace tutti {

// An array that peers can read in place: what communicator::allocate returns. A contiguous range; movable; gives its
// memory back when it goes, which must be before its communicator does.
template <element T, transport Transport>
class shared_array {
 public:
  shared_array(group<Transport>& owner, std::size_t count) : owner_(&owner), size_(count) {
    if (count > std::numeric_limits<std::size_t>::max() / sizeof(T)) throw std::bad_alloc();
    data_ = reinterpret_cast<T*>(owner.transport().allocate(bytes()));
    std::uninitialized_value_construct_n(data_, size_);
  }
  shared_array(shared_array&& other) noexcept
      : owner_(other.owner_), data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}
  shared_array& operator=(shared_array&& other) noexcept {
    std::swap(owner_, other.owner_);
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    return *this;
  }
  ~shared_array() {
    if (data_ != nullptr) owner_->transport().deallocate(reinterpret_cast<std::byte*>(data_), bytes());
  }

  T* data() const noexcept { return data_; }
  std::size_t size() const noexcept { return size_; }
  T* begin() const noexcept { return data_; }
  T* end() const noexcept { return data_ + size_; }
  T& operator[](std::size_t i) const noexcept { return data_[i]; }

 private:
  std::size_t bytes() const { return size_ * sizeof(T); }

  group<Transport>* owner_;
  T* data_ = nullptr;
  std::size_t size_ = 0;
};

// Every rank has one. All ranks call the same collectives on it in the same order; a rank calls from one thread at a time.
// After an error of a collective (mismatch, timeout, a rank lost or left) every further call throws that error.
template <transport Transport>
class communicator {
 public:
  explicit communicator(std::unique_ptr<Transport> transport)
      : group_(std::make_unique<tutti::group<Transport>>(std::move(transport))) {}

  int rank() const noexcept { return group_->rank(); }
  int size() const noexcept { return group_->ranks(); }
  bool is_main() const noexcept { return rank() == 0; }

  // Memory for `count` elements, zeroed, that the other ranks can read in place: the fastest buffers for large messages
  // (protocol direct). This rank alone calls it. Throws std::bad_alloc.
  template <element T>
  shared_array<T, Transport> allocate(std::size_t count) {
    static_assert(alignof(T) <= page);
    return {*group_, count};
  }

  // For the collectives.
  tutti::group<Transport>& group() noexcept { return *group_; }

 private:
  std::unique_ptr<tutti::group<Transport>> group_;
};

}  // namespace tutti
