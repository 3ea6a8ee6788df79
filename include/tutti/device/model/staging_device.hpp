// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The concept of a device with pinned host memory, through which its memory is staged to other ranks, and such memory.
#pragma once

#include <concepts>
#include <cstddef>

#include "tutti/device/model/device.hpp"

namespace tutti::detail {

// A copy between the device and pinned memory does not block. `release_pinned`, like `release` and cudaFreeHost, blocks until the
// device has done all earlier work.
template <class D>
concept staging_device = streaming_device<D> && requires(D const d, std::size_t bytes, void* memory) {
  { d.allocate_pinned(bytes) } -> std::same_as<void*>;
  { d.release_pinned(memory) } noexcept;
};

// A buffer for messages: pinned host memory, or device memory.
template <staging_device D>
class message_memory {
 public:
  message_memory(D const& owner, std::size_t bytes, bool pinned)
      : owner_{owner},
        pinned_{pinned},
        data_{static_cast<std::byte*>(pinned ? owner.allocate_pinned(bytes) : owner.allocate(bytes))} {}
  message_memory(message_memory const&) = delete;
  message_memory& operator=(message_memory const&) = delete;
  ~message_memory() {
    if (pinned_) owner_.release_pinned(data_);
    else owner_.release(data_);
  }

  std::byte* data() const { return data_; }

 private:
  D const& owner_;
  bool pinned_;
  std::byte* data_;
};

}  // namespace tutti::detail
