// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The buffers, streams and events that move device memory through the host; all ranks create them together.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <source_location>

#include "tutti/collective/all_or_none.hpp"
#include "tutti/core/error.hpp"
#include "tutti/core/text.hpp"
#include "tutti/core/wait.hpp"
#include "tutti/device/model/staging_device.hpp"

namespace tutti {

// How device memory is staged; the same on all ranks.
//
// slice    bytes of a buffer: one slice of a message, the blocks of all ranks together
// slices   the number of slices in flight, at least 3
struct staging {
  std::size_t slice = std::size_t{1} << 20;
  int slices = 4;
};

namespace detail {

// The buffers and events of one slice in flight.
template <staging_device D>
struct staging_slot {
  staging_slot(D const& on, std::size_t bytes, std::size_t block_bytes, bool pinned)
      : down(on, bytes, pinned),
        up(on, bytes, pinned),
        sources(on, pinned ? bytes : 0),
        result(on, block_bytes),
        came_down(on),
        combined(on),
        came_up(on) {}

  message_memory<D> down, up;                  // messages are sent from one and received in the other
  device_array<D, std::byte> sources, result;  // of a combination
  device_event<D> came_down, combined, came_up;
};

// State shared by all calls. Copies down and up have a stream each, because a device can do both at once. Kernels run
// on the stream of copies up, because they wait for its slices.
template <staging_device D>
struct staging_area {
  staging_area(D const& device, staging const& how, int ranks, bool pinned)
      : on(device), down(device), up(device), begin(device), end(device) {
    for (int i = 0; i < how.slices; ++i)
      slots.emplace_back(device, how.slice, how.slice / static_cast<std::size_t>(ranks), pinned);
  }
  ~staging_area() { settle(std::chrono::minutes(1)); }

  // Waits until no copy is in flight.
  void settle(std::chrono::nanoseconds most) noexcept {
    auto const until = deadline::after(most);
    for (device_stream<D> const* const stream : {&down, &up}) {
      try {
        on.wait(stream->get(), until);
      } catch (error const&) {  // the device is stuck; CUDA itself waits when memory is freed
      }
    }
  }

  D const& on;
  device_stream<D> down, up;
  device_event<D> begin, end;  // of a call
  std::deque<staging_slot<D>> slots;
};

// A report of this rank to the others.
struct staging_state {
  std::uint64_t slice;
  std::int32_t slices;
  bool accepts_device_memory;
};

// Whether the communicator accepts device memory directly, on all ranks.
template <class Transport>
[[gnu::cold]] bool agree_on_staging(communicator<Transport>& comm, staging const& how, std::source_location where) {
  if (how.slices < 3 || how.slice < static_cast<std::size_t>(comm.size()))
    refuse(comm.rank(), join({"cuda_staged cannot use ", how.slices, " slices of ", how.slice, " bytes"}),
           join({"ask for 3 slices or more, of ", comm.size(), " bytes or more"}), where);
  staging_state const mine{how.slice, how.slices, [&] {
                             if constexpr (may_accept_device_memory<Transport>)
                               return comm.size() > 1 && comm.engine().transport().accepts_device_memory();
                             else return false;
                           }()};
  bool taken = true;
  for (staging_state const& other : exchange_cards(comm, mine, where)) {
    taken = taken && other.accepts_device_memory;
    if (other.slice != mine.slice || other.slices != mine.slices)
      refuse(comm.rank(),
             join({"ranks ask for ", mine.slices, " slices of ", mine.slice, " bytes and for ", other.slices, " of ",
                   other.slice}),
             "make cuda_staged with the same `staging` on all ranks", where);
  }
  return taken;
}

// If one rank cannot create it, all ranks throw the reason.
template <staging_device D, class Transport>
[[gnu::cold]] std::unique_ptr<staging_area<D>> make_staging_area(communicator<Transport>& comm, D const& on,
                                                                 staging const& how, bool pinned,
                                                                 std::source_location where) {
  std::unique_ptr<staging_area<D>> out;
  all_or_none(
      comm, "stage memory of its device", where,
      [&] { out = std::make_unique<staging_area<D>>(on, how, comm.size(), pinned); },
      "ask for fewer or smaller slices, or free memory there");
  return out;
}

}  // namespace detail
}  // namespace tutti
