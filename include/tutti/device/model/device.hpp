// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The concepts of a device: memory, work ordered on streams, and optional capabilities. Free of CUDA.
#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "tutti/core/config.hpp"
#include "tutti/core/wait.hpp"

namespace tutti::detail {

// The work of a launch is a trivially copyable function object. Every member of a cooperating_group calls it with itself as the
// argument; members never wait for each other.
struct no_work {
  template <class Group>
  TUTTI_HOST_DEVICE void operator()(Group) const {}
};

// `launch` does not block, `wait` blocks until a deadline, and `copy` may block for pageable host memory. `release`, like
// cudaFree, blocks until the device has done all earlier work, so a buffer may be released while calls use it. All throw error,
// `system` if the device reports an error.
template <class D>
concept device = requires(D const d, typename D::stream_type stream, void* to, void const* from, std::size_t bytes,
                          no_work work, deadline until) {
  { d.allocate(bytes) } -> std::same_as<void*>;
  { d.release(to) } noexcept;
  { d.copy(stream, to, from, bytes) };  // between any two of host and device memory
  { d.launch(stream, bytes, work) };    // `bytes` items of work, any number
  { d.wait(stream, until) };            // until all work of the stream is done
};
template <device D>
using stream_of = typename D::stream_type;

// A stream as a program passes it: of the device's type or converted to it, or an object such as cuda::stream_ref, whose get()
// returns one.
template <device D>
class passed_stream {
 public:
  constexpr passed_stream() = default;
  template <std::convertible_to<stream_of<D>> Stream>
  constexpr passed_stream(Stream const& stream) : stream_{stream} {}
  template <class Stream>
    requires(!std::convertible_to<Stream const&, stream_of<D>> &&
             requires(Stream const& s) {
               { s.get() } -> std::convertible_to<stream_of<D>>;
             })
  constexpr passed_stream(Stream const& stream) : stream_{stream.get()} {}

  constexpr operator stream_of<D>() const { return stream_; }

 private:
  stream_of<D> stream_{};
};

// A member of a block, whose members may wait for each other. Blocks and ranks count from 0; rank 0 leads. A block has more than
// one warp, and the members of a warp should not diverge.
template <class Group>
concept block_group = requires(Group const group) {
  { group.rank() } -> std::convertible_to<int>;
  { group.size() } -> std::convertible_to<int>;
  { group.block() } -> std::convertible_to<int>;
  { Group::warp } -> std::convertible_to<int>;
  { group.sync() };  // a barrier and fence, which members may call at different places
};

// A member of a block whose members can combine values, in memory that they share: of_all(member, x, f) returns
// f(...f(f(x0, x1), x2)..., xn) with some parentheses, always the same, to each of them. All members call it.
template <class Group>
concept reducing_group =
    block_group<Group> &&
    requires(Group const group, typename Group::template reduction<float> memory, float x, float (*f)(float, float)) {
      { memory.of_all(group, x, f) } -> std::same_as<float>;
    };

// The work of a cooperative launch, called by every member of every block with uninitialised memory that the block shares.
struct no_work_together {
  template <class Group>
  struct room {};

  template <class Group>
  TUTTI_HOST_DEVICE void operator()(Group const&, room<Group>&) const {}
};

// All blocks of a launch run at once, so they may wait for each other. `launch_together` throws error, bad_argument, for more
// blocks than can run at once.
template <class D>
concept cooperative_device = device<D> && std::equality_comparable<typename D::stream_type> &&
                             requires(D const d, typename D::stream_type stream, int blocks, no_work_together work) {
                               {
                                 d.template blocks_at_once<no_work_together>()
                               } -> std::same_as<int>;  // 0: not supported
                               { d.multiprocessors() } -> std::same_as<int>;
                               { d.launch_together(stream, blocks, work) };
                             };
// Whether a stream that waits can hold up other streams of the same process.
template <class D>
inline constexpr bool streams_share_queues = [] {
  if constexpr (requires { D::streams_share_queues; }) return D::streams_share_queues;
  else return false;
}();

// Whether each array fits the L2 cache, but all together exceed three quarters of it. Then, on an H100, loads that bypass L1 are 10 %
// faster; if all arrays fit, they are 25 % slower.
template <device D>
bool exceeds_cache(D const& d, std::size_t bytes, std::size_t arrays) {
  if constexpr (requires { d.cache_bytes(); })
    return bytes <= d.cache_bytes() && bytes * arrays > d.cache_bytes() / 4 * 3;
  else return false;
}

// Why work cannot access memory that a program passes. `what` continues "the input of all_reduce".
struct memory_objection {
  std::string what, way_out;
};

// Can tell whether work on any of `users`, of which it is one, may access memory. It objects only if it is sure.
template <class D>
concept inspecting_device = device<D> && requires(D const d, void const* memory, std::span<D const* const> users) {
  { d.objection_to(memory, users) } -> std::same_as<std::optional<memory_objection>>;
};

// Events mark a place in a stream, for which other streams can wait. Nothing here blocks.
template <class D>
concept marking_device =
    device<D> && requires(D const d, typename D::stream_type stream, typename D::event_type event) {
      { d.make_event() } -> std::same_as<typename D::event_type>;  // reached from the start, until it is recorded
      { d.drop(event) } noexcept;
      { d.record(event, stream) };
      { d.follow(stream, event) };  // later work of the stream begins once the event is reached
      { d.reached(event) } -> std::same_as<bool>;
      {
        d.capturing(stream)
      } -> std::same_as<bool>;  // work given to the stream is captured into a graph and does not run
    };

// Can create streams, which do not wait for the default stream.
template <class D>
concept streaming_device = marking_device<D> && requires(D const d, typename D::stream_type stream) {
  { d.make_stream() } -> std::same_as<typename D::stream_type>;
  { d.end_stream(stream) } noexcept;
};

// Lends its streams to libraries that use CUDA, and the device that is current in a thread.
template <class D>
concept lending_device = device<D> && requires(D const d, typename D::stream_type stream, int (*f)()) {
  { d.lend(stream) } -> std::same_as<void*>;    // a cudaStream_t
  { d.while_current(f) } -> std::same_as<int>;  // calls f()
};

// Several devices of a process work on one call. After `reach`, work on d can access memory of the other; it throws error, system,
// naming both and the reason.
template <class D>
concept linked_device = streaming_device<D> && requires(D const d, D const other) {
  { d.same_as(other) } -> std::same_as<bool>;
  { d.reach(other) };
};

// An event. Its device must outlive it.
template <marking_device D>
class device_event {
 public:
  explicit device_event(D const& owner) : owner_{&owner}, event_{owner.make_event()} {}
  device_event(device_event const&) = delete;
  device_event& operator=(device_event const&) = delete;
  ~device_event() { owner_->drop(event_); }

  void record(stream_of<D> stream) const { owner_->record(event_, stream); }
  void before(stream_of<D> stream) const { before(*owner_, stream); }
  void before(D const& other, stream_of<D> stream) const {
    other.follow(stream, event_);
  }  // a stream of another device
  bool reached() const { return owner_->reached(event_); }

 private:
  D const* owner_;
  typename D::event_type event_;
};

// A stream that it creates and ends. Its device must outlive it.
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

// Identifies device memory to another process. Only devices of the same kind understand it.
struct device_memory_handle {
  std::array<std::byte, 64> token{};
  std::array<std::byte, 16> owner{};  // identity of the device
  void* address = nullptr;            // in its process
  std::int64_t process = 0;
  std::size_t offset = 0;  // from the start of the allocation that the token names
};

// An operation of a stream, in its order, on a word that others use meanwhile: waits until the word has a value, or writes one
// once all earlier work is done and visible.
struct stream_signal {
  enum class kind : std::uint8_t { wait, write } what;
  std::uint32_t* word;  // as the device addresses it
  std::uint32_t value;
};

// Shares memory with other processes, and its streams can wait for words that others write. All throw error: system.
template <class D>
concept sharing_device =
    marking_device<D> && requires(D const d, typename D::stream_type stream, void* memory, std::size_t bytes,
                                  device_memory_handle const& handle, std::span<stream_signal const> signals,
                                  std::uint32_t const* unless, no_work work) {
      {
        d.share(memory)
      } -> std::same_as<device_memory_handle>;    // `memory`: any address in an allocation of the device
      { d.open(handle) } -> std::same_as<void*>;  // its address in this process
      { d.close(handle, memory) } noexcept;
      { d.expose(memory, bytes) } -> std::same_as<void*>;  // the device address of host memory
      { d.hide(memory) } noexcept;
      { d.signal(stream, signals) };                     // in order
      { d.launch_unless(stream, unless, bytes, work) };  // does nothing if *unless is not 0 by then
      { d.text() } -> std::convertible_to<std::string>;  // names the device
    };

// Several devices can form a team, whose memory a switch between them reads, combines and writes as a whole. make_team_memory(rank,
// ranks, bytes) returns a member's part, which all members must make together (device/cuda/team_memory.cuh).
// compiled_for_teams<Work>(): whether this work can do so.
template <class D>
concept teaming_device = sharing_device<D> && requires(D const d, int rank, std::size_t bytes) {
  { *d.make_team_memory(rank, rank, bytes) };
  { d.template compiled_for_teams<no_work_together>() } -> std::same_as<bool>;
};

// An array in device memory. Its device must outlive it.
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
