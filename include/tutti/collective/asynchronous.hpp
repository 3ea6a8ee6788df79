// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// tutti::async(comm): collectives that return before they have ended.
#pragma once

#include <memory>
#include <source_location>
#include <type_traits>
#include <utility>

#include "tutti/collective/engine.hpp"
#include "tutti/collective/in_flight.hpp"

namespace tutti {

// Stands for a communicator in a call that is only started, and returns work.
template <transport Transport>
class asynchronous {
 public:
  using transport_type = Transport;

  explicit asynchronous(communicator<Transport>& comm) : comm_(comm) {}

  int rank() const noexcept { return comm_.rank(); }
  int size() const noexcept { return comm_.size(); }

  // For the collectives.
  communicator<Transport>& blocking() const noexcept { return comm_; }
  lists_of_sizes numbers;

 private:
  communicator<Transport>& comm_;
};

// Every collective takes it in place of the communicator, checks its arguments, and returns work, while the call goes on.
// All ranks start the same calls in the same order, blocking ones among them, which end after those that were started
// before. The calls of one communicator run one after another; their works may be waited for in any order. A rank may start
// what another rank calls blocking only where both name the same scheduled algorithm; native and two_level wait inside, and
// are for blocking calls. Closing a communicator waits for its calls.
//
//   tutti::work sum = tutti::all_reduce(tutti::async(comm), gradient);
//   compute_something_else();
//   sum.wait();
template <transport Transport>
asynchronous<Transport> async(communicator<Transport>& comm) {
  return asynchronous<Transport>(comm);
}

namespace detail {

template <class Comm>
inline constexpr bool is_communicator = false;
template <class Transport>
inline constexpr bool is_communicator<communicator<Transport>> = true;
template <class Comm>
inline constexpr bool is_asynchronous = false;
template <class Transport>
inline constexpr bool is_asynchronous<asynchronous<Transport>> = true;

}  // namespace detail

// What collectives take: a communicator, or async of one.
template <class Comm>
concept communicating =
    detail::is_communicator<std::remove_reference_t<Comm>> || detail::is_asynchronous<std::remove_reference_t<Comm>>;

// What they return.
template <communicating Comm>
using returned_by = std::conditional_t<detail::is_asynchronous<std::remove_reference_t<Comm>>, work, void>;

namespace detail {

template <class Transport>
group<Transport>& group_of(communicator<Transport>& comm) {
  return comm.group();
}
template <class Transport>
group<Transport>& group_of(asynchronous<Transport>& comm) {
  return comm.blocking().group();
}

// What a rank does alone, at once.
template <communicating Comm, class F>
returned_by<Comm> call_alone(Comm& comm, F&& f) {
  group_of(comm).expect_no_fault({});
  f();
  return returned_by<Comm>();
}

// Makes the call f(comm, kept...), with a communicator, or starts it: then f gets what stands for one, and copies of `kept`.
template <class Algorithm, class Transport, class F, class... Kept>
void call_on(communicator<Transport>& comm, options const& o, std::source_location where, F const& f,
             Kept const&... kept) {
  if (!on_only_node<Algorithm>(comm, o, where, [&](auto& node) { f(node, kept...); })) f(comm, kept...);
}

template <class Transport, class F, class... Kept>
work start(group<Transport>& g, lists_of_sizes& numbers, F const& f, Kept const&... kept) {
  if (!g.started) g.started = std::make_unique<in_flight<Transport>>(g);
  auto& queue = static_cast<in_flight<Transport>&>(*g.started);
  auto call = std::make_shared<held_call<Transport, F, Kept...>>(queue, g, std::move(numbers), f, kept...);
  queue.add(call);
  return work(std::move(call));
}

template <class Algorithm, class Transport, class F, class... Kept>
work call_on(asynchronous<Transport>& comm, options const& o, std::source_location where, F const& f,
             Kept const&... kept) {
  static_assert(!std::is_same_v<Algorithm, native> && !in_two_levels<Algorithm>,
                "native and two_level wait inside; use them in blocking calls");
  if (o.algorithm == algorithm_id::native || o.algorithm == algorithm_id::two_level)
    refuse(comm.rank(), join({name(o.algorithm), " waits inside, and this call is only started"}),
           "name another algorithm, or none, or make a blocking call", where);
  work out;
  if (!on_only_node<Algorithm>(comm.blocking(), o, where,
                               [&](auto& node) { out = start(node.group(), comm.numbers, f, kept...); }))
    out = start(comm.blocking().group(), comm.numbers, f, kept...);
  return out;
}

// The call itself, from here on known to the other ranks.
template <class Transport>
running_call<Transport> open(communicator<Transport>& comm, request const& r, options const& o, std::string_view type,
                             std::string_view op, std::source_location where) {
  auto& g = comm.group();
  if (g.started) g.started->finish();
  if constexpr (has_levels<Transport>)
    if (auto* const node = g.levels->only_node(); node != nullptr && node->group().started)
      node->group().started->finish();
  return running_call<Transport>(comm.group(), r, o, type, op, where);
}
template <class Transport>
beginning_call<Transport> open(queued_call<Transport>& call, request r, options const& o, std::string_view type,
                               std::string_view op, std::source_location where) {
  r.started = true;
  return beginning_call<Transport>(call, r, o, type, op, where);
}

// Where _v forms keep the counts and offsets that a call refers to.
template <class Transport>
lists_of_sizes& numbers_of(communicator<Transport>& comm) {
  return comm.group().numbers;
}
template <class Transport>
lists_of_sizes& numbers_of(asynchronous<Transport>& comm) {
  return comm.numbers;
}

}  // namespace detail
}  // namespace tutti
