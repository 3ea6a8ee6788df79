// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A device for tests on machines without one: its memory is the host's, and a launch calls the members of a grid one
// after the other.
#pragma once

#include <cstddef>
#include <cstring>
#include <new>

#include "tutti/transport/device.hpp"

namespace tutti::testing {

struct grid_member {
  static constexpr std::size_t block_bytes = 16;
  int rank_, size_;
  int rank() const { return rank_; }
  int size() const { return size_; }
};

struct device_stand_in {
  using stream_type = int;

  int threads = 1;
  int* launches = nullptr;

  void* allocate(std::size_t bytes) const { return ::operator new(bytes, std::align_val_t{256}); }
  void release(void* memory) const noexcept { ::operator delete(memory, std::align_val_t{256}); }
  void copy(stream_type, void* to, void const* from, std::size_t bytes) const {
    if (bytes > 0) std::memcpy(to, from, bytes);
  }
  void wait(stream_type, deadline) const {}

  template <class Work>
  void launch(stream_type, std::size_t, Work const& work) const {
    if (launches != nullptr) ++*launches;
    for (int rank = 0; rank < threads; ++rank) work(grid_member{rank, threads});
  }
};
static_assert(device<device_stand_in>);

}  // namespace tutti::testing
