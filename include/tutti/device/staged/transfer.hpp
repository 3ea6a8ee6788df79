// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A send or receive of device memory, in slices: its receiver fetches them from the sender's device, or they go by way of pinned
// host memory.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <source_location>
#include <string_view>
#include <utility>
#include <vector>

#include "tutti/call/options.hpp"
#include "tutti/core/error.hpp"
#include "tutti/core/text.hpp"
#include "tutti/device/model/staging_device.hpp"
#include "tutti/device/staged/message_place.hpp"
#include "tutti/device/staged/outbox.hpp"
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

// A slice is a message of the host with the tag of the whole. Its sender decides how the data travel:
// - in place: the slice is the whole message, which lies in memory that the receiver can read, and holds no data;
// - from a slot: the sender copies the data to memory of its device that the receiver can read;
// - with the message, from pinned memory to pinned memory.
// In the first two cases the receiver copies the data from device to device, and ends its receive once it has them, upon which the
// send ends. Hosts wait for these copies, so no stream waits for another rank.
//
// A slice that has not the usual size is the last one, so a message of less than a slice is one message of the host. Of two
// transfers that could take the slices of one another, the later one starts none before the earlier one has started all of its own.
template <staging_device D, transport Transport>
class device_transfer {
 public:
  using terms = transfer_terms<D, Transport>;

  // `what`: in device memory. `slice`: bytes, of whole elements.
  device_transfer(transfer const& what, std::size_t slice, std::shared_ptr<message_slots<D>> slots,
                  std::shared_ptr<message_outbox> outbox)
      : what_{what},
        slots_{std::move(slots)},
        outbox_{std::move(outbox)},
        slice_{slice},
        direct_{what.what == transfer::send && !what.ended && what.bytes > message_outbox::max_bytes_by_host &&
                outbox_->reaches(what.peer)},
        in_place_{direct_ ? outbox_->place_for(what.peer, what.from, what.bytes) : message_place()},
        all_started_{what.ended},
        ended_{what.ended},
        got_{what.ended ? received{no_rank, any_tag, 0} : received{what.peer, what.tag, 0}} {}

  bool ended() const { return ended_; }
  // Whether messages of the host are in flight.
  bool in_flight() const {
    for (std::size_t k = finished_; k < started_; ++k)
      if (!of(k).work.done()) return true;
    return false;
  }
  // Whether the device may read memory of another rank.
  bool fetching() const {
    for (std::size_t k = finished_; k < copied_; ++k)
      if (of(k).call && !copied(k).reached()) return true;
    return false;
  }
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
  // Two slices are in flight at once.
  struct slice_in_flight {
    receive_work work;                       // of the message of the host
    message_outbox::slot slot;               // of a slice that is sent from one
    std::shared_ptr<started_transfer> call;  // of a receive whose data this rank fetches
    bool fetched = false;                    // and it has told the sender
  };
  slice_in_flight& of(std::size_t k) { return slices_[k % 2]; }
  slice_in_flight const& of(std::size_t k) const { return slices_[k % 2]; }
  std::byte* memory(std::size_t k) const { return slots_->memory[k % 2].data(); }
  device_event<D> const& copied(std::size_t k) const { return slots_->copied[k % 2]; }

  bool may_start() {
    std::erase_if(earlier_, [](auto const& other) { return other->all_started_; });
    return earlier_.empty();
  }
  // Starts the message of the host for a slice. `place`: of its data; nowhere: in pinned memory.
  begun_transfer start(terms const& how, std::size_t bytes, message_place place = {}) {
    return start_transfer(
        how.comm,
        [&] {
          transfer slice = what_;
          slice.peer = receives() ? got_.source : what_.peer;
          slice.tag = receives() ? got_.tag : what_.tag;
          slice.from = slice.to = nullptr;
          slice.bytes = bytes;
          if (receives()) {
            slice.to = memory(started_);
            slice.device_bytes = room();
          } else {
            slice.place = place.word();
            if (!place) slice.from = memory(started_);
          }
          return slice;
        },
        nullptr, how.for_host, how.where);
  }

  // Slices are copied, started and finished in order.
  bool poll_send(terms const& how) {
    bool moved = false;
    // The last slice, which may be empty, has another size than the others.
    std::size_t const usual = in_place_ ? what_.bytes : slice_,
                      slices = in_place_ ? 1 + (what_.bytes == slice_ ? 1 : 0) : what_.bytes / slice_ + 1;
    auto const bytes_of = [&](std::size_t k) { return std::min(usual, what_.bytes - k * usual); };
    if (copied_ < slices && copied_ < finished_ + 2) {
      std::size_t const bytes = bytes_of(copied_);
      slice_in_flight& next = of(copied_);
      next = {};
      if (!in_place_) {
        if (direct_ && bytes > 0) next.slot = message_outbox::take_slot(outbox_);
        how.on.copy(how.stream, next.slot ? next.slot.data() : memory(copied_), what_.from + copied_ * usual, bytes);
      }
      copied(copied_).record(how.stream);
      ++copied_, moved = true;
    }
    if (started_ < copied_ && may_start() && copied(started_).reached()) {
      std::size_t const bytes = bytes_of(started_);
      slice_in_flight& next = of(started_);
      message_place const place = bytes == 0 ? message_place() : next.slot ? next.slot.place() : in_place_;
      next.work = receive_work(start(how, bytes, place), what_.element_bytes);
      ++started_, moved = true;
      all_started_ = started_ == slices;
    }
    if (finished_ < started_ && of(finished_).work.done()) {
      of(finished_).work.wait();  // throws the error of the message
      of(finished_).slot = {};
      ++finished_, moved = true;
      ended_ = finished_ == slices;
    }
    return moved;
  }
  // The next slice is started once the last one has arrived, or was offered, and tells whether there is another.
  bool poll_receive(terms const& how) {
    bool moved = false;
    if (!all_started_ && started_ == copied_ && started_ < finished_ + 2 && may_start()) {
      slice_in_flight& next = of(started_);
      begun_transfer begun = start(how, std::min(slice_, room()));
      next = {};
      next.call = begun.call;
      next.work = receive_work(begun, what_.element_bytes);
      ++started_, moved = true;
    }
    if (copied_ < started_) moved |= copy_next(how);
    if (finished_ < copied_) {
      slice_in_flight& next = of(finished_);
      // Until this rank says that it has the data, only a fault ends the receive, and then the copy does not matter.
      if (next.call && !next.fetched && next.work.done()) next.work.wait();
    }
    if (finished_ < copied_ && copied(finished_).reached()) {
      slice_in_flight& done = of(finished_);
      if (done.call && !std::exchange(done.fetched, true))
        with_exchange(how.comm, how.where, [&](auto& messages) { messages.end_fetched(*done.call); });
      if (done.work.done()) {
        done.work.wait();  // throws the error of the message
        ++finished_, moved = true;
        ended_ = all_started_ && finished_ == copied_;
      }
    }
    return moved;
  }
  // Copies the next slice, if it has come, to where it belongs. False if it has not come.
  bool copy_next(terms const& how) {
    slice_in_flight& next = of(copied_);
    std::byte const* from = memory(copied_);
    received slice{};
    if (next.work.done()) {
      slice = next.work.get();
      next.call = nullptr;
    } else if (auto const offered = with_exchange(
                   how.comm, how.where, [&](auto& messages) { return messages.find_fetchable(*next.call); })) {
      slice = received_of(*offered);
      message_place const place(offered->place);
      from = outbox_->find(slice.source, place, offered->got);
      if (from == nullptr) refuse_place(how, slice.source, place.is_by_nccl());
    } else {
      return false;
    }
    std::size_t const bytes = slice.count * what_.element_bytes;
    how.on.copy(how.stream, what_.to + got_.count * what_.element_bytes, from, bytes);
    copied(copied_).record(how.stream);
    got_ = {slice.source, slice.tag, got_.count + slice.count};
    all_started_ = bytes != slice_;
    ++copied_;
    return true;
  }
  // Of the output.
  std::size_t room() const { return what_.bytes - got_.count * what_.element_bytes; }
  [[noreturn, gnu::cold]] static void refuse_place(terms const& how, int source, bool by_nccl) {
    std::string_view const how_sent = by_nccl ? " by NCCL, but rank " : " from memory that rank ",
                           problem = by_nccl ? " does not receive it so" : " does not know";
    throw error({.code = error_code::mismatch,
                 .rank = how.comm.rank(),
                 .peer = source,
                 .what = join({"rank ", source, " sent a message", how_sent, how.comm.rank(), problem}),
                 .way_out = by_nccl ? "pass {.algorithm = tutti::algorithm_id::native} at both ends, or at neither"
                                    : "call allocate at all ranks, in the same order",
                 .where = how.where});
  }

  transfer what_;
  std::shared_ptr<message_slots<D>> slots_;
  std::shared_ptr<message_outbox> outbox_;
  std::size_t slice_;
  bool direct_;             // a send whose receiver can read memory of this rank's device
  message_place in_place_;  // of its data, if it need not copy them
  std::vector<std::shared_ptr<device_transfer const>> earlier_;
  std::array<slice_in_flight, 2> slices_;
  std::size_t copied_ = 0, started_ = 0, finished_ = 0;  // slices
  bool all_started_, ended_;
  received got_;
};

}  // namespace tutti::detail
