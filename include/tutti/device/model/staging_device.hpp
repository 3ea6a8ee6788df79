// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What a device has for those who bring its memory to other ranks by way of the host: memory of the host that copies
// run through at full speed.
#pragma once

#include <concepts>
#include <cstddef>

#include "tutti/device/model/device.hpp"

namespace tutti::detail {

// A copy between the device and pinned memory does not block.
template <class D>
concept staging_device = streaming_device<D> && requires(D const d, std::size_t bytes, void* memory) {
  { d.allocate_pinned(bytes) } -> std::same_as<void*>;
  { d.release_pinned(memory) } noexcept;
};

// Bytes that messages are sent from or received in: pinned memory of the host, or the device's own.
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
