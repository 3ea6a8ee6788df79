// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Messages between two ranks: send, recv, isend, irecv, send_recv.
#pragma once

#include <concepts>
#include <cstddef>
#include <memory>
#include <source_location>
#include <span>
#include <type_traits>
#include <utility>

#include "tutti/message/exchange.hpp"
#include "tutti/started/asynchronous.hpp"
#include "tutti/started/movement.hpp"

namespace tutti {

// What a receive has got. Of no_rank: nothing, from no_rank.
struct received {
  int source;
  int tag;
  std::size_t count;  // elements

  friend bool operator==(received const&, received const&) = default;
};

namespace detail {

inline received received_of(transfer const& t) { return {t.source, t.source_tag, t.got / t.element_bytes}; }

// With what a receive has got, once it has ended.
template <class Handle>
class receiving : public Handle {
 public:
  receiving() = default;
  template <class... Arguments>
  explicit receiving(std::shared_ptr<started_transfer> call, Arguments... arguments)
      : Handle(std::move(call), arguments...) {}
  receiving(begun_transfer const& begun, std::size_t element_bytes)
      : Handle(begun.call), got_{begun.source, begun.tag, begun.bytes / element_bytes} {}

  // Waits as wait() does.
  received get() {
    this->wait();
    return this->call() ? received_of(static_cast<started_transfer const&>(*this->call()).message) : got_;
  }

 private:
  received got_{no_rank, any_tag, 0};  // where there is no call any more
};

}  // namespace detail

// The work of a receive that was started, and a receive that was prepared.
using receive_work = detail::receiving<work>;  // by default of no_rank
using persistent_receive = detail::receiving<persistent>;

namespace detail {

template <class Comm>
void check_message(Comm const& comm, char const* what, int peer, int tag, bool receives, std::source_location where) {
  bool const rank = (peer >= 0 && peer < comm.size()) || peer == no_rank || (receives && peer == any_source);
  if (!rank)
    refuse(comm.rank(), join({what, " names rank ", peer, " of a communicator of ", comm.size()}),
           join({"use a rank from 0 to ", comm.size() - 1, receives ? ", any_source" : "", " or no_rank"}), where);
  if (tag < 0 && !(receives && tag == any_tag))
    refuse(comm.rank(), join({what, " has the tag ", tag}),
           receives ? "use a tag of 0 or more, or any_tag" : "use a tag of 0 or more", where);
}
template <class Comm>
void check_options(Comm const& comm, char const* what, options const& o, std::source_location where) {
  if (o.algorithm != algorithm_id::automatic || o.protocol != protocol::automatic)
    refuse(comm.rank(), join({what, " has no choice of algorithm or protocol"}), "set options::timeout alone", where);
  if (o.timeout.count() < 0)
    refuse(comm.rank(), "options::timeout is negative", "leave it 0 for the communicator's, or give a time", where);
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

// Sends `in` to rank `to`, which receives it with the same type and a tag that fits; it may have room for more. Any count,
// any rank, this one included. no_rank: nothing is done.
//
// Returns when `in` may change: a small message at once, where the channel has room (4 messages or more), or the
// receiver waits for this rank and has room for what it has not asked for (256 KiB); any other when it has been
// received. So two ranks that send each other large messages first, and receive then, wait for each other until the
// deadline; see send_recv and batch. Messages of a rank to another whose tags both fit a receive are received in their
// order. Calls and messages of a communicator do not disturb each other, and messages go on while their ranks wait in
// tutti.
// On async(comm), or as isend: starts it, and returns work. Works end in any order. On prepared(comm): returns
// persistent. Throws error: bad_argument before anything is sent; mismatch, timeout, rank_lost, rank_left, which all
// ranks of the communicator get. See MPI-4.1, 3.2 and 3.5.
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
  } else if constexpr (detail::stands_in<std::remove_reference_t<Comm>>) {
    return comm.take(detail::prepare_transfer<persistent>(comm.blocking(), make(), o, where), where);
  } else {
    detail::transfer t = make();
    if (to != no_rank) detail::run_transfers(comm, {&t, 1}, o, where);
  }
}

// Receives a message from rank `from`, or any_source, with this tag, or any_tag, into the begin of `out`. The message must
// not be longer than `out`; what is behind its end stays as it was. Returns who sent it, its tag and its count.
// On async(comm), or as irecv: starts it, and returns work, whose get() says that; on prepared(comm) persistent, whose get()
// says that of the last start. All else as send; MPI-4.1, 3.2.4.
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
  } else if constexpr (detail::stands_in<std::remove_reference_t<Comm>>) {
    return comm.take(detail::prepare_transfer<persistent_receive>(comm.blocking(), make(), o, where), where);
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

// Sends `in` to a rank and receives `out` from another, or from the same, at once: no circle of ranks can wait for itself.
// The arrays must not overlap. Either rank may be no_rank, at the edge of a grid. All else as send and recv; MPI-4.1, 3.10.
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
