// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Messages between two ranks whose data are in device memory, by way of pinned host memory.
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <optional>
#include <source_location>
#include <span>
#include <type_traits>

#include "tutti/call/check_arguments.hpp"
#include "tutti/core/text.hpp"
#include "tutti/core/wait.hpp"
#include "tutti/device/front/arguments.hpp"
#include "tutti/device/front/call.hpp"
#include "tutti/device/model/staging_device.hpp"
#include "tutti/message/point_to_point.hpp"

namespace tutti::detail {

// A message is sent in slices, which are messages of the host with its tag. A slice that is not full is the last one, so a
// message of less than a slice is one message of the host. While the host sends a slice, the device copies the next.
template <staging_device D, transport Transport>
class device_messages {
 public:
  device_messages(communicator<Transport>& comm, D const& on, std::size_t slice)
      : comm_{comm},
        on_{on},
        slice_{slice},
        down_{message_memory<D>{on, slice, true}, message_memory<D>{on, slice, true}},
        up_{message_memory<D>{on, slice, true}, message_memory<D>{on, slice, true}} {}

  // Sends `in`, if there is any, and receives `out`, if there is any, at once. Returns when both have ended.
  template <class T>
  received exchange(std::optional<std::span<T const>> in, int to, std::optional<std::span<T>> out, int from, int tag,
                    device_options<D> const& how, std::source_location where) {
    if (on_.capturing(how.stream))
      refuse(comm_.rank(), "a message was sent or received on a stream that is being captured into a graph",
             "call it outside of graphs, because the host sends messages", where);
    std::size_t const most = slice_ / sizeof(T);
    if (most == 0)
      refuse(comm_.rank(), join({"an element of ", sizeof(T), " bytes does not fit a slice of ", slice_}),
             "ask for larger slices", where);
    // The host refuses an algorithm or a protocol, which a message does not have.
    options const for_host{.algorithm = how.algorithm, .protocol = how.protocol, .timeout = how.timeout};
    auto const timeout = how.timeout.count() != 0 ? how.timeout : comm_.engine().environment.timeout;
    bool sends = in && to != no_rank, receives = out && from != no_rank;
    received got{no_rank, any_tag, 0};
    if (receives) got = {from, tag, 0};
    std::array<work, 2> sent;
    for (std::size_t k = 0; sends || receives; ++k) {
      receive_work next;
      std::span<T> const room(reinterpret_cast<T*>(up_[k % 2].data()),
                              receives ? std::min(most, out->size() - got.count) : 0);
      if (receives) next = irecv(comm_, room, got.source, got.tag, for_host, where);
      if (sends) {
        sent[k % 2].wait();
        std::span<T> const part(reinterpret_cast<T*>(down_[k % 2].data()), std::min(most, in->size() - k * most));
        on_.copy(how.stream, part.data(), in->data() + k * most, part.size_bytes());
        on_.wait(how.stream, deadline::after(timeout));
        sent[k % 2] = isend(comm_, part, to, tag, for_host, where);
        sends = part.size() == most;
      }
      if (receives) {
        received const slice = next.get();
        on_.copy(how.stream, out->data() + got.count, room.data(), slice.count * sizeof(T));
        on_.wait(how.stream, deadline::after(timeout));
        got = {slice.source, slice.tag, got.count + slice.count};
        receives = slice.count == most;
      }
    }
    for (work& w : sent) w.wait();
    return got;
  }

 private:
  communicator<Transport>& comm_;
  D const& on_;
  std::size_t slice_;
  std::array<message_memory<D>, 2> down_, up_;
};

}  // namespace tutti::detail

namespace tutti {

// Sends an array of device memory to rank `to`, which receives it into device memory with the same element type and a
// matching tag; it may have room for more. Blocks until the array may change, as the host's send does, and waits for earlier
// work of the stream. With no_rank nothing is done.
//
// Throws    error: bad_argument; mismatch, timeout, rank_lost, rank_left, system
// Cost      a message of the host for each slice, and a copy on each device
//
//   tutti::send(ranks, activations, comm.rank() + 1);
template <class R, detail::device_buffer In>
  requires requires(R& ranks) { ranks.messages(); }
void send(R& ranks, In const& in, int to, int tag = 0, detail::device_options_of<R> const& how = {},
          std::source_location where = std::source_location::current()) {
  detail::check_message(ranks, "send", detail::inputs_of(in), to, tag, false, where);
  using T = detail::device_value<In const>;
  ranks.messages().template exchange<T>(detail::inputs_of(in), to, {}, no_rank, tag, ranks.with_stream(how), where);
}

// Receives such a message from rank `from`, or any_source, with this tag, or any_tag, into the start of `out`. Returns when the
// data are there: its sender, tag and count.
//
//   tutti::received const got = tutti::recv(ranks, activations, comm.rank() - 1);
template <class R, detail::device_buffer Out>
  requires requires(R& ranks) { ranks.messages(); }
received recv(R& ranks, Out&& out, int from, int tag = 0, detail::device_options_of<R> const& how = {},
              std::source_location where = std::source_location::current()) {
  detail::check_message(ranks, "recv", detail::elements_of(out), from, tag, true, where);
  using T = detail::device_value<Out>;
  return ranks.messages().template exchange<T>({}, no_rank, detail::elements_of(out), from, tag, ranks.with_stream(how),
                                               where);
}

// Sends `in` to a rank and receives `out` from another, or from the same, at once, so no circle of ranks can wait for itself.
// The arrays must not overlap. Either rank may be no_rank.
//
//   tutti::send_recv(ranks, top_row, above, row_below, below);
template <class R, detail::device_buffer In, detail::device_buffer Out>
  requires requires(R& ranks) { ranks.messages(); }
received send_recv(R& ranks, In const& in, int to, Out&& out, int from, int tag = 0,
                   detail::device_options_of<R> const& how = {},
                   std::source_location where = std::source_location::current()) {
  using T = detail::device_value<In const>;
  static_assert(std::is_same_v<T, detail::device_value<Out>>,
                "input and output of a call have different element types");
  detail::check_message(ranks, "send_recv", detail::inputs_of(in), to, tag, false, where);
  detail::check_message(ranks, "send_recv", detail::elements_of(out), from, tag, true, where);
  auto const given = detail::inputs_of(in);
  auto const taken = detail::elements_of(out);
  if (detail::overlap(reinterpret_cast<std::byte const*>(given.data()), given.size_bytes(),
                      reinterpret_cast<std::byte*>(taken.data()), taken.size_bytes()))
    detail::refuse(ranks.rank(), "input and output of send_recv overlap", "use two buffers that do not overlap", where);
  return ranks.messages().template exchange<T>(given, to, taken, from, tag, ranks.with_stream(how), where);
}

}  // namespace tutti
