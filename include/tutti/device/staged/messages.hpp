// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Messages between two ranks whose data are in device memory.
#pragma once

#include <cstddef>
#include <source_location>
#include <span>
#include <type_traits>

#include "tutti/call/check_arguments.hpp"
#include "tutti/core/text.hpp"
#include "tutti/device/front/arguments.hpp"
#include "tutti/device/front/call.hpp"
#include "tutti/device/staged/exchange.hpp"
#include "tutti/message/point_to_point.hpp"

namespace tutti::detail {

template <class R>
concept device_ranks_with_messages = requires(R& ranks) { ranks.messages(); };

// Carries out at most one send and one receive, at once, and returns the result of the receive.
template <class R>
received run_on_device(R& ranks, char const* name, std::span<transfer const> all, device_options_of<R> const& how,
                       std::source_location where) {
  if (how.algorithm != algorithm_id::native) return ranks.messages().run(name, all, ranks.with_stream(how), where);
  auto const got = ranks.run_native(name, all, how, where);
  return got.empty() ? received{no_rank, any_tag, 0} : got[0];
}

}  // namespace tutti::detail

namespace tutti {

// Sends an array of device memory to rank `to`, which receives it into device memory with the same element type and a
// matching tag; it may have room for more. Blocks until the array may change, as the host's send does, and waits for earlier
// work of the stream. With no_rank nothing is done.
//
// How       a message of more than 16 KiB to a rank that can read memory of this device is copied from device to device by its
//           receiver: from its place, if that is memory from ranks.allocate, otherwise from a buffer to which the sender has
//           copied it. Others go by way of pinned host memory
// native    with {.algorithm = algorithm_id::native} at both ends, NCCL carries the message on the stream: the call returns, as
//           collectives by NCCL do, when the other end has been called and the stream has been given the message. It may be
//           captured into a graph. A rank receives messages of another in the order in which they were sent, or in one batch
// Order     a send of more than 16 KiB waits until its receiver has copied the message, after the earlier work of the stream
//           there. If that includes a collective that this rank calls after the send, the two wait for each other
// Throws    error: bad_argument; mismatch, timeout, rank_lost, rank_left, system
// Cost      a message of the host for each slice, and a copy on each device; from memory of ranks.allocate one message and one copy
//
//   tutti::send(ranks, activations, comm.rank() + 1);
template <class R, detail::device_buffer In>
  requires detail::device_ranks_with_messages<R>
void send(R& ranks, In const& in, int to, int tag = 0, detail::device_options_of<R> const& how = {},
          std::source_location where = std::source_location::current()) {
  detail::check_message(ranks, "send", detail::inputs_of(in), to, tag, false, where);
  detail::transfer const one = detail::send_of(detail::inputs_of(in), to, tag);
  detail::run_on_device(ranks, "send", {&one, 1}, how, where);
}

// Receives such a message from rank `from`, or any_source, with this tag, or any_tag, into the start of `out`. Returns when the
// data are there: its sender, tag and count.
//
//   tutti::received const got = tutti::recv(ranks, activations, comm.rank() - 1);
template <class R, detail::device_buffer Out>
  requires detail::device_ranks_with_messages<R>
received recv(R& ranks, Out&& out, int from, int tag = 0, detail::device_options_of<R> const& how = {},
              std::source_location where = std::source_location::current()) {
  detail::check_message(ranks, "recv", detail::elements_of(out), from, tag, true, where);
  detail::transfer const one = detail::receive_of(detail::elements_of(out), from, tag);
  return detail::run_on_device(ranks, "recv", {&one, 1}, how, where);
}

// Sends `in` to a rank and receives `out` from another, or from the same, at once, so no circle of ranks can wait for itself.
// The arrays must not overlap. Either rank may be no_rank.
//
//   tutti::send_recv(ranks, top_row, above, row_below, below);
template <class R, detail::device_buffer In, detail::device_buffer Out>
  requires detail::device_ranks_with_messages<R>
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
  detail::transfer const both[] = {detail::receive_of(taken, from, tag), detail::send_of(given, to, tag)};
  return detail::run_on_device(ranks, "send_recv", both, how, where);
}

}  // namespace tutti
