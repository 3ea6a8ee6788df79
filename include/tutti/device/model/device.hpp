// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A device as collectives see it: memory, and work that is ordered on streams. What follows is free of CUDA.
#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>

#include "tutti/core/config.hpp"
#include "tutti/core/wait.hpp"

namespace tutti::detail {

// The work of a launch is a trivially copyable function object. It is called by every member of a group that shares the
// work (a cooperating_group), with that member as the argument; members never wait for each other.
struct no_work {
  template <class Group>
  TUTTI_HOST_DEVICE void operator()(Group) const {}
};

// `launch` does not block, and `wait` until a deadline; `copy` may for pageable memory of the host. `release` does
// until the device has done what it was given before, as cudaFree: a buffer may go while calls on it run. All throw
// error, `system` where the device refuses something.
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
// Events mark a place in a stream, which others can wait for. Nothing here blocks.
template <class D>
concept marking_device =
    device<D> && requires(D const d, typename D::stream_type stream, typename D::event_type event) {
      { d.make_event() } -> std::same_as<typename D::event_type>;  // which is reached until it is recorded
      { d.drop(event) } noexcept;
      { d.record(event, stream) };
      { d.follow(stream, event) };  // what the stream is given from now on begins when the event is reached
      { d.reached(event) } -> std::same_as<bool>;
      {
        d.capturing(stream)
      } -> std::same_as<bool>;  // what the stream is given becomes part of a graph, and does not run
    };

// Streams of tutti's own, which do not wait for the default one.
template <class D>
concept streaming_device = marking_device<D> && requires(D const d, typename D::stream_type stream) {
  { d.make_stream() } -> std::same_as<typename D::stream_type>;
  { d.end_stream(stream) } noexcept;
};

// Several of a process work on one call. `reach`: what runs on d reads and writes memory of the other from then on; throws
// error, system, which names both and the reason.
template <class D>
concept linked_device = streaming_device<D> && requires(D const d, D const other) {
  { d.same_as(other) } -> std::same_as<bool>;
  { d.reach(other) };
};

// An event of a device, which must outlive it.
template <marking_device D>
class device_event {
 public:
  explicit device_event(D const& owner) : owner_{&owner}, event_{owner.make_event()} {}
  device_event(device_event const&) = delete;
  device_event& operator=(device_event const&) = delete;
  ~device_event() { owner_->drop(event_); }

  void record(stream_of<D> stream) const { owner_->record(event_, stream); }
  void before(stream_of<D> stream) const { before(*owner_, stream); }
  void before(D const& other, stream_of<D> stream) const { other.follow(stream, event_); }  // a stream of another
  bool reached() const { return owner_->reached(event_); }

 private:
  D const* owner_;
  typename D::event_type event_;
};

// A stream of its own, on a device that must outlive it.
template <streaming_device D>
class device_stream {
 public:
  explicit device_stream(D const& owner) : owner_{owner}, stream_{owner.make_stream()} {}
  device_stream(device_stream const&) = delete;
  device_stream& operator=(device_stream const&) = delete;
  ~device_stream() { owner_.end_stream(stream_); }

  stream_of<D> get() const { return stream_; }

 private:
  D const& owner_;
  stream_of<D> stream_;
};

// How another process finds memory of a device: made by one device and understood by others of its kind alone.
struct device_memory_handle {
  std::array<std::byte, 64> token{};
  std::array<std::byte, 16> owner{};  // which device
  void* address = nullptr;            // in its process
  std::int64_t process = 0;
  std::size_t offset = 0;  // from the begin of what the token stands for
};

// What a stream does in its turn with a word that others use meanwhile: waits until it has a value, or writes one when all that
// came before is done and seen.
struct stream_signal {
  enum class kind : std::uint8_t { wait, write } what;
  std::uint32_t* word;  // as the device addresses it
  std::uint32_t value;
};

// Processes share its memory, and its streams wait for words that others write. All throw error: system.
template <class D>
concept sharing_device =
    marking_device<D> && requires(D const d, typename D::stream_type stream, void* memory, std::size_t bytes,
                                  device_memory_handle const& handle, std::span<stream_signal const> signals,
                                  std::uint32_t const* unless, no_work work) {
      { d.share(memory) } -> std::same_as<device_memory_handle>;  // or any place in memory that the device has given
      { d.open(handle) } -> std::same_as<void*>;                  // where this process finds it
      { d.close(handle, memory) } noexcept;
      { d.expose(memory, bytes) } -> std::same_as<void*>;  // where the device finds memory of the host
      { d.hide(memory) } noexcept;
      { d.signal(stream, signals) };                     // one after the other
      { d.launch_unless(stream, unless, bytes, work) };  // nothing where that word is not 0 by then
      { d.text() } -> std::convertible_to<std::string>;  // which device this is
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

}  // namespace tutti::detail
