// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tagged messages between two ranks: send, recv, isend, irecv, send_recv.
#pragma once

#include <source_location>
#include <span>
#include <utility>

#include "tutti/call/accepted.hpp"
#include "tutti/call/elements.hpp"
#include "tutti/message/perform.hpp"
#include "tutti/message/receive_work.hpp"
#include "tutti/started/asynchronous.hpp"

namespace tutti {

// Sends `in`, an array or a value, to rank `to`, which receives it with the same element type and a matching tag; it may
// have room for more. Any count, any rank, this one included. With no_rank nothing is done. The array may have gaps, also on
// one side only; then a contiguous copy travels.
//
// Returns when `in` may change: a small message at once, if the channel has room (for 4 messages or more), or if the
// receiver waits for this rank and has room for messages that it has not asked for (256 KiB); any other when it has been
// received. So two ranks that first send each other large messages, and then receive, wait for each other until the
// deadline; see send_recv and batch. Messages from one rank to another whose tags both match a receive are received in the
// order in which they were sent. Calls and messages of a communicator do not disturb each other, and messages make progress
// while their ranks wait in tutti.
// On async(comm), or as isend: starts it, and returns work. Works end in any order. On prepared(comm): returns persistent.
//
// Throws    error: bad_argument before anything is sent; mismatch, timeout, rank_lost, rank_left, on all ranks of the
//           communicator
// Source    MPI-4.1, 3.2 and 3.5
//
//   tutti::send(comm, halo, comm.rank() + 1);
//   tutti::send(comm, temperature, 0, 3);
//   tutti::work sent = tutti::isend(comm, halo, comm.rank() + 1, 7);
template <class Comm, class In>
  requires detail::host_ranks<Comm>
auto send(Comm&& comm, In&& in, int to, int tag = 0, options const& o = {},
          std::source_location where = std::source_location::current()) {
  if constexpr (detail::accepts_sent<Comm, In>())
    return detail::send_array(comm, detail::inputs(in), to, tag, o, where);
}

// Receives a message from rank `from`, or any_source, with this tag, or any_tag, into the start of `out`. The message must
// not be longer than `out`; elements past its end stay as they were. Returns its sender, tag and count.
// On async(comm), or as irecv: starts it, and returns work, whose get() returns these; on prepared(comm) persistent, whose
// get() returns those of the last start. Everything else as send. Source: MPI-4.1, 3.2.4.
//
//   tutti::received const got = tutti::recv(comm, halo, tutti::any_source);
//   tutti::receive_work next = tutti::irecv(comm, halo, left, 7);
template <class Comm, class Out>
  requires detail::host_ranks<Comm>
auto recv(Comm&& comm, Out&& out, int from, int tag = 0, options const& o = {},
          std::source_location where = std::source_location::current()) {
  if constexpr (detail::accepts_received<Comm, Out>())
    return detail::receive_array(comm, detail::elements(out), from, tag, o, where);
}

// Receives one T and returns it; from no_rank, a T made by default.
// Throws error besides: bad_argument for a message of no elements.
//
//   double const temperature = tutti::recv<double>(comm, tutti::any_source, 3);
template <class T, class Comm>
  requires detail::host_ranks<Comm>
[[nodiscard]] T recv(Comm&& comm, int from, int tag = 0, options const& o = {},
                     std::source_location where = std::source_location::current()) {
  T out{};
  if constexpr (detail::expect_blocking<Comm>() && detail::expect_received_element<T>()) {
    received const got = detail::receive_array(comm, std::span(&out, 1), from, tag, o, where);
    if (got.count == 0 && from != no_rank)
      detail::refuse(comm.rank(),
                     detail::join({"rank ", got.source, " sent an empty message where a value is received"}),
                     "send one element", where);
  }
  return out;
}

// send on async(comm): starts a send and returns its work. `in` must stay as it is until the work has ended.
template <class Comm, class In>
  requires detail::host_ranks<Comm>
[[nodiscard("wait for it before you change the array")]] work isend(
    Comm& comm, In&& in, int to, int tag = 0, options const& o = {},
    std::source_location where = std::source_location::current()) {
  if constexpr (detail::accepts_isend<Comm&, In>()) return send(async(comm), std::forward<In>(in), to, tag, o, where);
  else return {};
}

// recv on async(comm): starts a receive and returns its work, whose get() returns sender, tag and count.
template <class Comm, class Out>
  requires detail::host_ranks<Comm>
[[nodiscard("wait for it before you read the array")]] receive_work irecv(
    Comm& comm, Out&& out, int from, int tag = 0, options const& o = {},
    std::source_location where = std::source_location::current()) {
  if constexpr (detail::accepts_irecv<Comm&, Out>())
    return recv(async(comm), std::forward<Out>(out), from, tag, o, where);
  else return {};
}

// Sends `in` to a rank and receives `out` from another, or from the same, at once, so no circle of ranks can wait for
// itself. The arrays must not overlap. Either rank may be no_rank, at the edge of a grid. Blocking calls only; otherwise
// start a send and a receive. Everything else as send and recv. Source: MPI-4.1, 3.10.
//
//   tutti::send_recv(comm, top_row, above, row_below, below);
template <class Comm, class In, class Out>
  requires detail::host_ranks<Comm>
received send_recv(Comm&& comm, In&& in, int to, Out&& out, int from, int tag = 0, options const& o = {},
                   std::source_location where = std::source_location::current()) {
  if constexpr (detail::expect_blocking<Comm>() && detail::accepts_sent<Comm, In>() &&
                detail::accepts_received<Comm, Out>())
    return detail::exchange_arrays(comm, detail::inputs(in), to, detail::elements(out), from, tag, o, where);
  else return {};
}

}  // namespace tutti
