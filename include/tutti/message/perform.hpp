// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A send or receive as called by one rank: checks of its arguments, and the transfer, which is run, started or prepared.
#pragma once

#include <cstddef>
#include <ranges>
#include <source_location>
#include <span>
#include <type_traits>
#include <utility>

#include "tutti/call/accepted.hpp"
#include "tutti/call/check_arguments.hpp"
#include "tutti/call/elements.hpp"
#include "tutti/call/perform.hpp"
#include "tutti/core/error.hpp"
#include "tutti/message/receive_work.hpp"
#include "tutti/message/with_exchange.hpp"
#include "tutti/started/asynchronous.hpp"

namespace tutti::detail {

// Throws unless size, pointer, peer and tag are those of a message.
[[gnu::cold, gnu::noinline]] inline void refuse_message(int rank, int ranks, char const* what, std::size_t size,
                                                        bool possible, bool null, int peer, int tag, bool receives,
                                                        std::source_location where) {
  if (!possible) refuse_impossible_size(rank, join({"the array of ", what}), size, where);
  if (null) refuse_null(rank, join({"the array of ", what}), size, where);
  if (!((peer >= 0 && peer < ranks) || (ranks > 0 && (peer == no_rank || (receives && peer == any_source)))))
    refuse(rank,
           peer == any_source ? join({what, " names any_source"})
                              : join({what, " names rank ", peer, ", but the communicator has ", ranks,
                                      ranks == 1 ? " rank" : " ranks"}),
           join({"use a rank from 0 to ", ranks - 1, receives ? ", any_source" : "", " or no_rank"}), where);
  if (tag < 0 && !(receives && tag == any_tag))
    refuse(rank, join({what, " has tag ", tag}),
           receives ? "use a tag of 0 or more, or any_tag" : "use a tag of 0 or more", where);
}
// `array`: what is sent, or has room for what is received. Special peers and tags are left to the function above.
template <class Comm, class Array>
[[gnu::always_inline]] inline void check_message(Comm& comm, char const* what, Array const& array, int peer, int tag,
                                                 bool receives, std::source_location where) {
  bool const possible = is_possible_size<typename Array::value_type>(array.size());
  bool null = false;
  if constexpr (requires { array.data(); }) null = array.data() == nullptr && array.size() > 0;
  if (!possible || null || peer < 0 || peer >= comm.size() || tag < 0) [[unlikely]]
    refuse_message(comm.rank(), comm.size(), what, array.size(), possible, null, peer, tag, receives, where);
}
[[gnu::cold, gnu::noinline]] inline void refuse_options(int rank, char const* what, bool chooses,
                                                        std::source_location where) {
  if (chooses) refuse(rank, join({what, " takes no algorithm or protocol"}), "set only options::timeout", where);
  refuse_negative_timeout(rank, where);
}
template <class Comm>
[[gnu::always_inline]] inline void check_options(Comm& comm, char const* what, options const& o,
                                                 std::source_location where) {
  bool const chooses = o.algorithm != algorithm_id::automatic || o.protocol != protocol::automatic;
  if (chooses || o.timeout.count() < 0) [[unlikely]]
    refuse_options(comm.rank(), what, chooses, where);
}

template <class T>
transfer transfer_of(transfer::kinds what, int peer, int tag) {
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
template <class T>
consteval bool expect_received_element() {
  if constexpr (!std::ranges::contiguous_range<T> || element<T>) return expect_element<T>();
  else {
    static_assert(never<T>,
                  "recv<T> returns one element; pass an array to receive into, of which probe tells the size");
    return false;
  }
}
template <class Comm, class Out>
consteval bool accepts_received() {
  if constexpr (expect_communicator<Comm>()) {
    if constexpr (!array_argument<Out>)
      static_assert(
          never<Out>,
          "a message is received into an array; for a value pass std::span(&value, 1), or let a blocking recv return "
          "it: value = tutti::recv<type>(comm, from)");
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
  return noting_refusals(comm, [&]() __attribute__((always_inline)) {
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
  });
}

template <class Comm, class Array>
auto receive_array(Comm& comm, Array const& out, int from, int tag, options const& o, std::source_location where) {
  return noting_refusals(comm, [&]() __attribute__((always_inline)) {
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
  });
}

template <class Comm, class In, class Out>
received exchange_arrays(Comm& comm, In const& in, int to, Out const& out, int from, int tag, options const& o,
                         std::source_location where) {
  return noting_refusals(comm, [&]() __attribute__((always_inline)) {
    check_message(comm, "send_recv", in, to, tag, false, where);
    check_message(comm, "send_recv", out, from, tag, true, where);
    check_options(comm, "send_recv", o, where);
    auto const taken = message_array_of<typename Out::value_type>(out);
    auto const sent = message_array_of<typename In::value_type const>(in);
    transfer both[] = {receive_of(taken.elements, from, tag), send_of(sent.elements, to, tag)};
    if (overlap(both[1].from, both[1].bytes, both[0].to, both[0].bytes))
      refuse(comm.rank(), "input and output of send_recv overlap", "use two buffers that do not overlap", where);
    shared_gaps const gaps[] = {taken.gaps, sent.gaps};
    run_transfers(comm, both, gaps, o, where);
    return received_of(both[0]);
  });
}

}  // namespace tutti::detail
