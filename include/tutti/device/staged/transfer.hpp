// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A send or receive of device memory by way of pinned host memory, in slices.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <exception>
#include <memory>
#include <source_location>
#include <utility>
#include <vector>

#include "tutti/call/options.hpp"
#include "tutti/device/model/staging_device.hpp"
#include "tutti/execute/transfer.hpp"
#include "tutti/message/point_to_point.hpp"

namespace tutti::detail {

// The buffers through which the slices of one message pass: while the host moves one, the device copies the other.
template <staging_device D>
struct message_slots {
  message_slots(D const& on, std::size_t bytes)
      : memory{message_memory<D>{on, bytes, true}, message_memory<D>{on, bytes, true}},
        copied{device_event<D>{on}, device_event<D>{on}} {}

  std::array<message_memory<D>, 2> memory;
  std::array<device_event<D>, 2> copied;
};

// How the transfers of a call are carried out.
template <staging_device D, transport Transport>
struct transfer_terms {
  communicator<Transport>& comm;
  D const& on;
  stream_of<D> stream;
  options for_host;
  std::source_location where;
};

// A message is sent in slices, which are messages of the host with its tag. A slice that is not full is the last one, so a message
// of less than a slice is one message of the host. Of two transfers that could take the slices of one another, the later one
// starts none before the earlier one has started all of its own.
template <staging_device D, transport Transport>
class device_transfer {
 public:
  using terms = transfer_terms<D, Transport>;

  // `what`: in device memory. `slice`: bytes, of whole elements.
  device_transfer(transfer const& what, std::size_t slice, std::shared_ptr<message_slots<D>> slots)
      : what_{what},
        slots_{std::move(slots)},
        slice_{slice},
        all_started_{what.ended},
        ended_{what.ended},
        got_{what.ended ? received{no_rank, any_tag, 0} : received{what.peer, what.tag, 0}} {}

  bool ended() const { return ended_; }
  bool in_flight() const { return finished_ < started_ && !works_[finished_ % 2].done(); }
  // The result of a receive.
  received const& got() const { return got_; }
  bool receives() const { return what_.what == transfer::receive; }

  // Whether slices of the other could be taken for those of this one.
  bool may_take(device_transfer const& other) const {
    auto const meet = [](int a, int b, int any) { return a == b || a == any || b == any; };
    return what_.what == other.what_.what && meet(what_.peer, other.what_.peer, any_source) &&
           meet(what_.tag, other.what_.tag, any_tag);
  }
  void start_after(std::shared_ptr<device_transfer const> earlier) { earlier_.push_back(std::move(earlier)); }

  // Progresses as far as possible without waiting. Throws the errors of messages and of the device.
  progress poll(terms const& how) {
    if (ended_) return progress::done;
    try {
      bool const moved = receives() ? poll_receive(how) : poll_send(how);
      return moved ? progress::moved : progress::stuck;
    } catch (...) {
      stop();
      throw;
    }
  }
  // Starts no more slices.
  void stop() noexcept { all_started_ = true; }

 private:
  bool may_start() {
    std::erase_if(earlier_, [](auto const& other) { return other->all_started_; });
    return earlier_.empty();
  }
  std::byte* memory(std::size_t slice) const { return slots_->memory[slice % 2].data(); }
  device_event<D> const& copied(std::size_t slice) const { return slots_->copied[slice % 2]; }
  // Starts the message of the host for a slice.
  begun_transfer start(terms const& how, std::size_t bytes) {
    return start_transfer(
        how.comm,
        [&] {
          transfer slice = what_;
          slice.peer = receives() ? got_.source : what_.peer;
          slice.tag = receives() ? got_.tag : what_.tag;
          slice.from = slice.to = nullptr;
          (receives() ? slice.to : const_cast<std::byte*&>(slice.from)) = memory(started_);
          slice.bytes = bytes;
          return slice;
        },
        nullptr, how.for_host, how.where);
  }

  // Slices are copied, started and finished in order.
  bool poll_send(terms const& how) {
    bool moved = false;
    std::size_t const slices = what_.bytes / slice_ + 1;
    auto const bytes_of = [&](std::size_t k) { return std::min(slice_, what_.bytes - k * slice_); };
    if (copied_ < slices && copied_ < finished_ + 2) {
      how.on.copy(how.stream, memory(copied_), what_.from + copied_ * slice_, bytes_of(copied_));
      copied(copied_).record(how.stream);
      ++copied_, moved = true;
    }
    if (started_ < copied_ && may_start() && copied(started_).reached()) {
      works_[started_ % 2] = receive_work(start(how, bytes_of(started_)), what_.element_bytes);
      ++started_, moved = true;
      all_started_ = started_ == slices;
    }
    if (finished_ < started_ && works_[finished_ % 2].done()) {
      works_[finished_ % 2].wait();  // throws the error of the message
      ++finished_, moved = true;
      ended_ = finished_ == slices;
    }
    return moved;
  }
  // The next slice is started once the last one has arrived and tells whether there is another.
  bool poll_receive(terms const& how) {
    bool moved = false;
    std::size_t const room = what_.bytes - got_.count * what_.element_bytes;
    if (!all_started_ && started_ == finished_ && started_ < copied_ + 2 && may_start()) {
      works_[started_ % 2] = receive_work(start(how, std::min(slice_, room)), what_.element_bytes);
      ++started_, moved = true;
    }
    if (finished_ < started_ && works_[finished_ % 2].done()) {
      received const slice = works_[finished_ % 2].get();
      how.on.copy(how.stream, what_.to + got_.count * what_.element_bytes, memory(finished_),
                  slice.count * what_.element_bytes);
      copied(finished_).record(how.stream);
      got_ = {slice.source, slice.tag, got_.count + slice.count};
      all_started_ = slice.count * what_.element_bytes < slice_;
      ++finished_, moved = true;
    }
    if (copied_ < finished_ && copied(copied_).reached()) {
      ++copied_, moved = true;
      ended_ = all_started_ && copied_ == finished_;
    }
    return moved;
  }

  transfer what_;
  std::shared_ptr<message_slots<D>> slots_;
  std::size_t slice_;
  std::vector<std::shared_ptr<device_transfer const>> earlier_;
  std::array<receive_work, 2> works_;
  std::size_t copied_ = 0, started_ = 0, finished_ = 0;  // slices
  bool all_started_, ended_;
  received got_;
};

}  // namespace tutti::detail
