// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Memory that is kept from call to call, so that calls allocate nothing once it has grown.
#pragma once

#include <cstddef>

#include "tutti/transport/concept.hpp"

namespace tutti::detail {

// A buffer that grows on demand and is released only at the end.
template <class Transport>
class grown_memory {
 public:
  explicit grown_memory(Transport& transport) : transport_(transport) {}
  grown_memory(grown_memory const&) = delete;
  grown_memory& operator=(grown_memory const&) = delete;
  ~grown_memory() { drop(); }

  std::byte* at_least(std::size_t bytes) {
    if (bytes <= bytes_) return data_;
    drop();
    data_ = transport_.allocate(bytes);
    bytes_ = bytes;
    return data_;
  }

 private:
  void drop() noexcept {
    if (data_ != nullptr) transport_.deallocate(data_, bytes_);
    data_ = nullptr;
    bytes_ = 0;
  }

  Transport& transport_;
  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace tutti::detail
