// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A device as collectives see it: memory, and work that is ordered on streams. What follows is free of CUDA.
#pragma once

#include <concepts>
#include <cstddef>
#include <span>
#include <utility>

#include "tutti/core/config.hpp"
#include "tutti/core/wait.hpp"

namespace tutti {

// The work of a launch is a trivially copyable function object. It is called by every member of a group that shares the
// work (a cooperating_group), with that member as the argument; members never wait for each other.
struct no_work {
  template <class Group>
  TUTTI_HOST_DEVICE void operator()(Group) const {}
};

// `launch` does not block, and `wait` until a deadline; `copy` may for pageable memory of the host, and `release`. All throw error, `system` where the device refuses something.
template <class D>
concept device = requires(D const d, typename D::stream_type stream, void* to, void const* from, std::size_t bytes,
                          no_work work, deadline until) {
  { d.allocate(bytes) } -> std::same_as<void*>;
  { d.release(to) } noexcept;
  { d.copy(stream, to, from, bytes) };  // between any two of host and device memory
  { d.launch(stream, bytes, work) };    // for as many elements of work, which may be any number
  { d.wait(stream, until) };            // until all that was given to the stream is done
};
template <device D>
using stream_of = typename D::stream_type;

// A member of a block: its members may wait for each other. Block and rank count from 0, and rank 0 leads. A block has more
// than one warp, whose members go the same way.
template <class Group>
concept block_group = requires(Group const group) {
  { group.rank() } -> std::convertible_to<int>;
  { group.size() } -> std::convertible_to<int>;
  { group.block() } -> std::convertible_to<int>;
  { Group::warp } -> std::convertible_to<int>;
  { group.sync() };  // what members did before is seen by all behind it; they may call it at different places
};

// The work of a launch together: called by every member of every block with what the block shares, uninitialised.
struct no_work_together {
  template <class Group>
  struct room {};

  template <class Group>
  TUTTI_HOST_DEVICE void operator()(Group const&, room<Group>&) const {}
};

// A device whose blocks may wait for each other, since all blocks of a launch run at once. `launch_together` throws error,
// bad_argument, for more than those.
template <class D>
concept cooperative_device = device<D> && std::equality_comparable<typename D::stream_type> &&
                             requires(D const d, typename D::stream_type stream, int blocks, no_work_together work) {
                               {
                                 d.template blocks_at_once<no_work_together>()
                               } -> std::same_as<int>;  // 0: this device cannot
                               { d.launch_together(stream, blocks, work) };
                             };

// Memory of a device, which must outlive it.
template <device D, class T>
class device_array {
 public:
  device_array(D const& owner, std::size_t size)
      : owner_{&owner}, data_{static_cast<T*>(owner.allocate(size * sizeof(T)))}, size_{size} {}
  device_array(device_array&& other) noexcept
      : owner_{other.owner_}, data_{std::exchange(other.data_, nullptr)}, size_{std::exchange(other.size_, 0)} {}
  device_array& operator=(device_array other) noexcept {
    std::swap(owner_, other.owner_);
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    return *this;
  }
  ~device_array() {
    if (data_ != nullptr) owner_->release(data_);
  }

  T* data() const { return data_; }
  std::size_t size() const { return size_; }

 private:
  D const* owner_;
  T* data_;
  std::size_t size_;
};

}  // namespace tutti
