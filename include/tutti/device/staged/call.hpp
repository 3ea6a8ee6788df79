// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Moves a message between a device and other ranks through buffers that messages can reach, slice by slice, with
// several slices in flight.
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <source_location>
#include <string_view>

#include "tutti/call/communicator.hpp"
#include "tutti/core/error.hpp"
#include "tutti/core/text.hpp"
#include "tutti/core/wait.hpp"
#include "tutti/device/front/call.hpp"
#include "tutti/device/staged/area.hpp"
#include "tutti/started/meeting_call.hpp"
#include "tutti/started/work.hpp"

namespace tutti::detail {

// One round of messages for one slice. All ranks send in the same order. If a slice has two rounds, the first round of
// the next slice precedes the second, and the device combines meanwhile.
struct slice_turn {
  std::size_t slice;
  int round;
};
constexpr slice_turn turn_of(std::size_t i, std::size_t slices, int rounds) {
  if (rounds == 1 || i == 0) return {i, 0};
  if (i % 2 == 0) return {i / 2 - 1, 1};
  return i / 2 + 1 < slices ? slice_turn{i / 2 + 1, 0} : slice_turn{slices - 1, 1};
}

// One call, ordered on the caller's stream. If it fails, the other ranks learn of it, and nothing touches the caller's
// memory any more.
template <staging_device D, transport Transport>
class staged_call {
 public:
  staged_call(communicator<Transport>& comm, staging_area<D>& area, device_options<D> const& how,
              std::source_location where)
      : comm_(comm), area_(area), stream_(how.stream), timeout_(comm.engine().timeout_for(how.timeout)), where_(where) {
    if (area.on.capturing(stream_))
      refuse(comm.rank(), "a collective of cuda_staged was called on a stream that is being captured into a graph",
             "call it outside of graphs, because the host sends its messages", where);
  }
  staged_call(staged_call const&) = delete;
  staged_call& operator=(staged_call const&) = delete;
  ~staged_call() {
    if (!settled_) abandon();
  }

  // Options of the host calls that it consists of.
  options for_host() const { return {.algorithm = {}, .protocol = {}, .timeout = timeout_}; }
  std::source_location where() const { return where_; }

  // Copies given from here on run after the earlier work of the caller's stream.
  void begin() {
    area_.begin.record(stream_);
    area_.begin.before(area_.down.get());
    area_.begin.before(area_.up.get());
  }

  // Starts a meeting of all ranks in this call. Ranks that make a different call find that out before any message is
  // sent, and an error names ranks that do not arrive.
  template <collective C>
  void announce(request const& what, algorithm_id by, std::string_view type, std::string_view op) {
    names_ = {type, op};
    call_terms terms{what, find_schedule_of<C>, timeout_, where_, &names_};
    terms.asked.algorithm = by;
    terms.asked.how = protocol::staged;
    agreement() = start_meeting(comm_, terms);
  }

  // For each slice: download(slot, slice) gives its copies to the stream `down`; send(slot, slice, round) starts its
  // messages or makes the call, and returns its work; upload(slot, slice, round) gives copies and kernels to the stream
  // `up`, and those of the next round to `down` once `combined` is reached.
  template <class Download, class Send, class Upload>
  void travel(std::size_t slices, int rounds, Download const& download, Send const& send, Upload const& upload) {
    std::size_t downloaded = 0, uploaded = 0;
    std::size_t const turns = slices * static_cast<std::size_t>(rounds);
    auto const end = [&](std::size_t i) {
      auto const [slice, round] = turn_of(i, slices, rounds);
      messages_of(i).wait();
      upload(slot_of(slice), slice, round);
      slot_of(slice).came_up.record(area_.up.get());
      uploaded += round + 1 == rounds;
    };
    for (std::size_t i = 0; i < turns; ++i) {
      for (; downloaded < std::min(slices, uploaded + area_.slots.size()); ++downloaded) {
        download(slot_of(downloaded), downloaded);
        slot_of(downloaded).came_down.record(area_.down.get());
      }
      auto const [slice, round] = turn_of(i, slices, rounds);
      bool const follows = i > 0 && turn_of(i - 1, slices, rounds).slice == slice;
      if (follows) end(i - 1);
      staging_slot<D>& slot = slot_of(slice);
      await(slot.came_down);
      await(slot.came_up);  // the previous slice in this slot
      messages_of(i) = send(slot, slice, round);
      if (i > 0 && !follows) end(i - 1);
    }
    if (turns > 0) end(turns - 1);
  }

  // Work given to the caller's stream from here on runs after the call.
  void finish() {
    agreement().wait();
    area_.end.record(area_.up.get());
    area_.end.before(stream_);
    settled_ = true;
  }

  // Waits until the earlier work of the stream is done, for callers that pass device memory to the MPI.
  void await_stream() { await(area_.begin); }

 private:
  staging_slot<D>& slot_of(std::size_t slice) { return area_.slots[slice % area_.slots.size()]; }
  work& agreement() { return started_[2]; }
  work& messages_of(std::size_t turn) { return started_[turn % 2]; }

  // Messages progress during the wait.
  void await(device_event<D> const& event) {
    auto const look = [&] {
      if (event.reached()) return progress::done;
      for (work& w : started_) w.test();
      return progress::stuck;
    };
    if (wait_until_done(look, patience_sharing_cores, countdown(timeout_), sleep_for(idler::rest))) return;
    double const seconds = std::chrono::duration<double>(timeout_).count();
    throw error(
        {.code = error_code::timeout,
         .rank = comm_.rank(),
         .what = join({"the copies on the device of rank ", comm_.rank(), " did not complete within ", seconds, " s"}),
         .way_out = "raise the timeout, or check the earlier work of the stream",
         .where = where_});
  }

  [[gnu::cold]] void abandon() noexcept {
    give_up_host_calls(comm_);
    for (work& w : started_) {
      try {
        w.wait();
      } catch (...) {  // the caller is already getting an error
      }
    }
    area_.settle(std::chrono::seconds(1));
  }

  communicator<Transport>& comm_;
  staging_area<D>& area_;
  stream_of<D> stream_;
  std::chrono::nanoseconds timeout_;
  std::source_location where_;
  call_names names_;
  std::array<work, 3> started_;
  bool settled_ = false;
};

}  // namespace tutti::detail
