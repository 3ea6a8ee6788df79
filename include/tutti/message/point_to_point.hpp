// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tagged messages between two ranks: send, recv, isend, irecv, send_recv.
#pragma once

#include <concepts>
#include <cstddef>
#include <memory>
#include <ranges>
#include <source_location>
#include <span>
#include <type_traits>
#include <utility>

#include "tutti/call/accepted.hpp"
#include "tutti/call/elements.hpp"
#include "tutti/message/exchange.hpp"
#include "tutti/started/asynchronous.hpp"

namespace tutti {

// The result of a receive: who sent, with which tag, and how much. For no_rank: no elements, from no_rank.
struct received {
  int source;
  int tag;
  std::size_t count;  // elements

  friend bool operator==(received const&, received const&) = default;
};

namespace detail {

inline received received_of(transfer const& t) { return {t.source, t.source_tag, t.got / t.element_bytes}; }

// A handle of a receive, which gives its result.
template <class Handle>
class receiving : public Handle {
 public:
  receiving() = default;
  template <class... Arguments>
  explicit receiving(std::shared_ptr<started_transfer> call, Arguments... arguments)
      : Handle(std::move(call), arguments...) {}
  receiving(begun_transfer const& begun, std::size_t element_bytes)
      : Handle(begun.call), got_{begun.source, begun.tag, begun.bytes / element_bytes} {}

  // Waits like wait().
  received get() {
    this->wait();
    return this->call() ? received_of(static_cast<started_transfer const&>(*this->call()).message) : got_;
  }

 private:
  received got_{no_rank, any_tag, 0};  // if the receive has ended at once
};

}  // namespace detail

// A receive that was started, by default from no_rank. get() waits for it and returns sender, tag and count.
using receive_work = detail::receiving<work>;

// A receive that was prepared. get() waits for its last start.
using persistent_receive = detail::receiving<persistent>;

namespace detail {

// `array`: what is sent, or has room for what is received.
template <class Comm, class Array>
void check_message(Comm const& comm, char const* what, Array const& array, int peer, int tag, bool receives,
                   std::source_location where) {
  if (!is_possible_size<typename Array::value_type>(array.size()))
    refuse_impossible_size(comm.rank(), join({"the array of ", what}), array.size(), where);
  bool const rank = (peer >= 0 && peer < comm.size()) || peer == no_rank || (receives && peer == any_source);
  if (!rank)
    refuse(comm.rank(),
           join({what, " names rank ", peer, ", but the communicator has ", comm.size(),
                 comm.size() == 1 ? " rank" : " ranks"}),
           join({"use a rank from 0 to ", comm.size() - 1, receives ? ", any_source" : "", " or no_rank"}), where);
  if (tag < 0 && !(receives && tag == any_tag))
    refuse(comm.rank(), join({what, " has tag ", tag}),
           receives ? "use a tag of 0 or more, or any_tag" : "use a tag of 0 or more", where);
}
template <class Comm>
void check_options(Comm const& comm, char const* what, options const& o, std::source_location where) {
  if (o.algorithm != algorithm_id::automatic || o.protocol != protocol::automatic)
    refuse(comm.rank(), join({what, " takes no algorithm or protocol"}), "set only options::timeout", where);
  if (o.timeout.count() < 0)
    refuse(comm.rank(), "options::timeout is negative",
           "leave it 0 for the timeout of the communicator, or set a positive time", where);
}

template <class T>
transfer transfer_of(transfer::directions what, int peer, int tag) {
  return {.what = what,
          .ended = peer == no_rank,
          .type = type_id<T>(),
          .tag = tag,
          .peer = peer,
          .type_name = type_name<T>(),
          .element_bytes = sizeof(T)};
}
template <class T>
transfer send_of(std::span<T const> in, int to, int tag) {
  transfer out = transfer_of<T>(transfer::send, to, tag);
  out.from = reinterpret_cast<std::byte const*>(in.data());
  out.bytes = in.size_bytes();
  return out;
}
template <class T>
transfer receive_of(std::span<T> into, int from, int tag) {
  transfer out = transfer_of<T>(transfer::receive, from, tag);
  out.to = reinterpret_cast<std::byte*>(into.data());
  out.bytes = into.size_bytes();
  return out;
}

template <class Transport>
void run_transfers(communicator<Transport>& comm, std::span<transfer> all, std::span<shared_gaps const> gaps,
                   options const& o, std::source_location where) {
  for (std::size_t i = 0; i < all.size(); ++i)
    if (gaps[i]) gaps[i]->begin(all[i]);
  with_exchange(comm, where, [&](auto& messages) { messages.run(all, o.timeout, where); });
  for (std::size_t i = 0; i < all.size(); ++i)
    if (gaps[i]) gaps[i]->end(all[i]);
}
template <class Transport, class Make>
begun_transfer start_transfer(communicator<Transport>& comm, Make&& make, shared_gaps const& gaps, options const& o,
                              std::source_location where) {
  return with_exchange(comm, where, [&](auto& messages) {
    return gaps ? messages.begin_kept(make(), gaps, o.timeout, where) : messages.begin(make, o.timeout, where);
  });
}
template <class Operation, class Transport>
Operation prepare_transfer(communicator<Transport>& comm, transfer const& t, shared_gaps const& gaps, options const& o,
                           std::source_location where) {
  return with_exchange(comm, where,
                       [&](auto& messages) { return messages.template prepare<Operation>(t, gaps, o.timeout, where); });
}

// Checks the data of a send: an array or, in a blocking call, a value.
template <class Comm, class In>
consteval bool accepts_sent() {
  if constexpr (!expect_communicator<Comm>()) return false;
  else if constexpr (array_argument<In>) return expect_input<Comm, In>();
  else if constexpr (is_communicator<std::remove_cvref_t<Comm>>) return expect_element<element_in<In>>();
  else {
    static_assert(never<In>,
                  "a value that is sent later must stay where it is until then; pass it as std::span(&value, 1)");
    return false;
  }
}
template <class Comm, class Out>
consteval bool accepts_received() {
  if constexpr (expect_communicator<Comm>()) {
    if constexpr (!array_argument<Out>)
      static_assert(
          never<Out>,
          "a message is received into an array; for a value write value = tutti::recv<type>(comm, from), or pass "
          "std::span(&value, 1)");
    else return expect_output<Out>();
  }
  return false;
}

template <class Comm, class In>
consteval bool accepts_isend() {
  if constexpr (expect_blocking<Comm>()) return accepts_sent<decltype(async(std::declval<Comm>())), In>();
  else return false;
}
template <class Comm, class Out>
consteval bool accepts_irecv() {
  if constexpr (expect_blocking<Comm>()) return accepts_received<decltype(async(std::declval<Comm>())), Out>();
  else return false;
}

template <class Comm, class Array>
returned_by<Comm> send_array(Comm& comm, Array const& in, int to, int tag, options const& o,
                             std::source_location where) {
  check_message(comm, "send", in, to, tag, false, where);
  check_options(comm, "send", o, where);
  auto const sent = message_array_of<typename Array::value_type const>(in);
  auto const make = [&] { return send_of(sent.elements, to, tag); };
  if constexpr (is_asynchronous<Comm>) {
    if (to == no_rank) return work();
    return work(start_transfer(comm.blocking(), make, sent.gaps, o, where).call);
  } else if constexpr (defers_calls<Comm>) {
    return comm.accept(prepare_transfer<persistent>(comm.blocking(), make(), sent.gaps, o, where), where);
  } else {
    transfer t = make();
    if (to != no_rank) run_transfers(comm, {&t, 1}, {&sent.gaps, 1}, o, where);
  }
}

template <class Comm, class Array>
auto receive_array(Comm& comm, Array const& out, int from, int tag, options const& o, std::source_location where) {
  using T = typename Array::value_type;
  check_message(comm, "recv", out, from, tag, true, where);
  check_options(comm, "recv", o, where);
  auto const taken = message_array_of<T>(out);
  auto const make = [&] { return receive_of(taken.elements, from, tag); };
  if constexpr (is_asynchronous<Comm>) {
    if (from == no_rank) return receive_work();
    return receive_work(start_transfer(comm.blocking(), make, taken.gaps, o, where), sizeof(T));
  } else if constexpr (defers_calls<Comm>) {
    return comm.accept(prepare_transfer<persistent_receive>(comm.blocking(), make(), taken.gaps, o, where), where);
  } else {
    transfer t = make();
    if (from != no_rank) run_transfers(comm, {&t, 1}, {&taken.gaps, 1}, o, where);
    return received_of(t);
  }
}

}  // namespace detail

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
  if constexpr (detail::expect_blocking<Comm>() && detail::expect_element<T>()) {
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
[[nodiscard]] work isend(Comm& comm, In&& in, int to, int tag = 0, options const& o = {},
                         std::source_location where = std::source_location::current()) {
  if constexpr (detail::accepts_isend<Comm&, In>()) return send(async(comm), std::forward<In>(in), to, tag, o, where);
  else return {};
}

// recv on async(comm): starts a receive and returns its work, whose get() returns sender, tag and count.
template <class Comm, class Out>
  requires detail::host_ranks<Comm>
[[nodiscard]] receive_work irecv(Comm& comm, Out&& out, int from, int tag = 0, options const& o = {},
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
                detail::accepts_received<Comm, Out>()) {
    auto const given = detail::inputs(in);
    auto const wanted = detail::elements(out);
    detail::check_message(comm, "send_recv", given, to, tag, false, where);
    detail::check_message(comm, "send_recv", wanted, from, tag, true, where);
    detail::check_options(comm, "send_recv", o, where);
    auto const taken = detail::message_array_of<detail::element_in<Out>>(wanted);
    auto const sent = detail::message_array_of<detail::element_in<In> const>(given);
    detail::transfer both[] = {detail::receive_of(taken.elements, from, tag), detail::send_of(sent.elements, to, tag)};
    if (detail::overlap(both[1].from, both[1].bytes, both[0].to, both[0].bytes))
      detail::refuse(comm.rank(), "input and output of send_recv overlap", "use two buffers that do not overlap",
                     where);
    detail::shared_gaps const gaps[] = {taken.gaps, sent.gaps};
    detail::run_transfers(comm, both, gaps, o, where);
    return detail::received_of(both[0]);
  } else {
    return {};
  }
}

}  // namespace tutti
