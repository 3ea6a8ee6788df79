// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tagged messages between two ranks: send, recv, isend, irecv, send_recv.
#pragma once

#include <concepts>
#include <cstddef>
#include <memory>
#include <source_location>
#include <span>
#include <type_traits>
#include <utility>

#include "tutti/call/movement.hpp"
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

// A receive that was started, by default from no_rank; and a receive that was prepared.
using receive_work = detail::receiving<work>;
using persistent_receive = detail::receiving<persistent>;

namespace detail {

template <class Comm>
void check_message(Comm const& comm, char const* what, int peer, int tag, bool receives, std::source_location where) {
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
          .peer = peer,
          .tag = tag,
          .type = type_id<T>(),
          .type_name = type_name<T>(),
          .element_bytes = sizeof(T),
          .ended = peer == no_rank};
}
template <buffer In>
transfer send_of(In const& in, int to, int tag) {
  transfer out = transfer_of<value_of<In>>(transfer::send, to, tag);
  out.from = bytes_of(in);
  out.bytes = std::ranges::size(in) * sizeof(value_of<In>);
  return out;
}
template <mutable_buffer Out>
transfer receive_of(Out&& out_buffer, int from, int tag) {
  transfer out = transfer_of<value_of<Out>>(transfer::receive, from, tag);
  out.to = writable_bytes_of(out_buffer);
  out.bytes = std::ranges::size(out_buffer) * sizeof(value_of<Out>);
  return out;
}

template <class Transport>
void run_transfers(communicator<Transport>& comm, std::span<transfer> all, options const& o,
                   std::source_location where) {
  with_exchange(comm, where, [&](auto& messages) { messages.run(all, o.timeout, where); });
}
template <class Transport, class Make>
begun_transfer start_transfer(communicator<Transport>& comm, Make&& make, options const& o,
                              std::source_location where) {
  return with_exchange(comm, where, [&](auto& messages) { return messages.begin(make, o.timeout, where); });
}
template <class Operation, class Transport>
Operation prepare_transfer(communicator<Transport>& comm, transfer const& t, options const& o,
                           std::source_location where) {
  return with_exchange(comm, where,
                       [&](auto& messages) { return messages.template prepare<Operation>(t, o.timeout, where); });
}

}  // namespace detail

// Sends `in` to rank `to`, which receives it with the same type, a matching tag, and room for at least as many elements. Any
// count and any rank, including the caller. Does nothing if `to` is no_rank.
//
// Returns when `in` may be changed. A small message is eager: send returns at once while the receiver has credit for messages
// that no receive has matched (256 KiB) and the channel has room (for 4 messages or more). A larger one returns when it has
// been received. So two ranks that both send a large message first, and then receive, wait for each other until the timeout;
// use send_recv or batch. If two messages from one rank match the same receive, they are received in the order in which they
// were sent. Messages are independent of the collectives of the same communicator, and make progress while their ranks wait
// in tutti.
//
// On async(comm), or as isend: starts the send and returns `work`; works end in any order. On prepared(comm): returns
// `persistent`. Throws error: bad_argument before anything is sent; mismatch, timeout, rank_lost, rank_left, which all ranks
// of the communicator get. See MPI-4.1, 3.2 and 3.5.
//
//   tutti::send(comm, halo, comm.rank() + 1);
//   tutti::work sent = tutti::isend(comm, halo, comm.rank() + 1, 7);
template <communicating Comm, buffer In>
detail::returned_by<Comm> send(Comm&& comm, In const& in, int to, int tag = 0, options const& o = {},
                               std::source_location where = std::source_location::current()) {
  detail::check_message(comm, "send", to, tag, false, where);
  detail::check_options(comm, "send", o, where);
  auto const make = [&] { return detail::send_of(in, to, tag); };
  if constexpr (detail::is_asynchronous<std::remove_reference_t<Comm>>) {
    if (to == no_rank) return work();
    return work(detail::start_transfer(comm.blocking(), make, o, where).call);
  } else if constexpr (detail::defers_calls<std::remove_reference_t<Comm>>) {
    return comm.accept(detail::prepare_transfer<persistent>(comm.blocking(), make(), o, where), where);
  } else {
    detail::transfer t = make();
    if (to != no_rank) detail::run_transfers(comm, {&t, 1}, o, where);
  }
}

// Receives a message from rank `from`, or any_source, with this tag, or any_tag, into the start of `out`. The message must not
// be longer than `out`; elements after its end keep their values. Returns its sender, tag and count.
//
// On async(comm), or as irecv: starts the receive and returns `receive_work`; on prepared(comm), `persistent_receive`. Their
// get() waits and returns the same. Otherwise like send; see MPI-4.1, 3.2.4.
//
//   tutti::received const got = tutti::recv(comm, halo, tutti::any_source);
//   tutti::receive_work next = tutti::irecv(comm, halo, left, 7);
template <communicating Comm, mutable_buffer Out>
auto recv(Comm&& comm, Out&& out, int from, int tag = 0, options const& o = {},
          std::source_location where = std::source_location::current()) {
  detail::check_message(comm, "recv", from, tag, true, where);
  detail::check_options(comm, "recv", o, where);
  auto const make = [&] { return detail::receive_of(out, from, tag); };
  if constexpr (detail::is_asynchronous<std::remove_reference_t<Comm>>) {
    if (from == no_rank) return receive_work();
    return receive_work(detail::start_transfer(comm.blocking(), make, o, where), sizeof(value_of<Out>));
  } else if constexpr (detail::defers_calls<std::remove_reference_t<Comm>>) {
    return comm.accept(detail::prepare_transfer<persistent_receive>(comm.blocking(), make(), o, where), where);
  } else {
    detail::transfer t = make();
    if (from != no_rank) detail::run_transfers(comm, {&t, 1}, o, where);
    return detail::received_of(t);
  }
}

template <transport Transport, buffer In>
work isend(communicator<Transport>& comm, In const& in, int to, int tag = 0, options const& o = {},
           std::source_location where = std::source_location::current()) {
  return send(async(comm), in, to, tag, o, where);
}
template <transport Transport, mutable_buffer Out>
receive_work irecv(communicator<Transport>& comm, Out&& out, int from, int tag = 0, options const& o = {},
                   std::source_location where = std::source_location::current()) {
  return recv(async(comm), out, from, tag, o, where);
}

// Sends `in` to one rank and receives `out` from another, or the same, at the same time, so that a cycle of ranks cannot
// deadlock. The arrays must not overlap. Either rank may be no_rank, as at the edge of a grid. Otherwise like send and recv;
// see MPI-4.1, 3.10.
//
//   tutti::send_recv(comm, top_row, above, row_below, below);
template <transport Transport, buffer In, mutable_buffer Out>
received send_recv(communicator<Transport>& comm, In const& in, int to, Out&& out, int from, int tag = 0,
                   options const& o = {}, std::source_location where = std::source_location::current()) {
  detail::check_message(comm, "send_recv", to, tag, false, where);
  detail::check_message(comm, "send_recv", from, tag, true, where);
  detail::check_options(comm, "send_recv", o, where);
  detail::transfer both[] = {detail::receive_of(out, from, tag), detail::send_of(in, to, tag)};
  detail::expect_apart(comm.rank(), both[1].from, both[1].bytes, both[0].to, both[0].bytes, nullptr, where);
  detail::run_transfers(comm, both, o, where);
  return detail::received_of(both[0]);
}

}  // namespace tutti
