// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// tutti::async(comm) and tutti::prepared(comm): collectives that return before they have ended, or begun.
#pragma once

#include <concepts>
#include <exception>
#include <memory>
#include <source_location>
#include <type_traits>
#include <utility>

#include "tutti/call/execute.hpp"
#include "tutti/started/in_flight.hpp"
#include "tutti/started/persistent.hpp"

namespace tutti {
namespace detail {

// What stands for a communicator in a call that is not made at once.
template <transport Transport>
class stand_in {
 public:
  using transport_type = Transport;

  explicit stand_in(communicator<Transport>& comm) : comm_(comm) {}

  int rank() const noexcept { return comm_.rank(); }
  int size() const noexcept { return comm_.size(); }

  // For the collectives.
  static constexpr bool coalesces = false;
  communicator<Transport>& blocking() const noexcept { return comm_; }
  lists_of_sizes numbers;

 private:
  communicator<Transport>& comm_;
};

}  // namespace detail

// In a call that is only started, and returns work.
template <transport Transport>
class asynchronous : public detail::stand_in<Transport> {
 public:
  using detail::stand_in<Transport>::stand_in;

  // For the collectives.
  using returned = work;
  template <class Operation>
  Operation take(Operation call, std::source_location where) const {
    call.start(where);
    return call;
  }
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

// In a call that is only prepared, and returns persistent.
template <transport Transport>
class preparing : public detail::stand_in<Transport> {
 public:
  using detail::stand_in<Transport>::stand_in;

  // For the collectives.
  using returned = persistent;
  template <class Operation>
  Operation take(Operation call, std::source_location) const {
    return call;
  }
};

// Every collective, and send and recv, take it in place of the communicator, check their arguments, and return what can be
// started many times: see persistent. All that is said of async holds of its starts; nothing is sent before. See MPI-4.1,
// 3.9 and 6.13.
//
//   tutti::persistent sum = tutti::all_reduce(tutti::prepared(comm), gradient);
//   for (auto const& batch : batches) {
//     backward(batch, gradient);
//     sum.start();
//     load_next();
//     sum.wait();
//   }
template <transport Transport>
preparing<Transport> prepared(communicator<Transport>& comm) {
  return preparing<Transport>(comm);
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

template <class Comm>
concept stands_in = std::derived_from<Comm, stand_in<typename Comm::transport_type>>;

// What puts all_reduces of one operation together; an operation with a state is not known to be the same one.
template <class Comm, class Op>
concept coalesces = stands_in<Comm> && Comm::coalesces && std::is_empty_v<Op>;

template <class Comm>
struct returns {
  using type = void;
};
template <stands_in Comm>
struct returns<Comm> {
  using type = typename Comm::returned;
};

}  // namespace detail

// What collectives take: a communicator, or async of one, or prepared, or a batch.
template <class Comm>
concept communicating =
    detail::is_communicator<std::remove_reference_t<Comm>> || detail::stands_in<std::remove_reference_t<Comm>>;

namespace detail {

// What they return: nothing, work, persistent, nothing.
template <communicating Comm>
using returned_by = typename detail::returns<std::remove_reference_t<Comm>>::type;

template <class Transport>
engine<Transport>& engine_of(communicator<Transport>& comm) {
  return comm.engine();
}
template <stands_in Comm>
auto& engine_of(Comm& comm) {
  return comm.blocking().engine();
}

// What a rank does alone: f(), which keeps what it refers to, but for `numbers`.
template <class Transport, class F>
class lone_call final : public pending_call {
 public:
  lone_call(engine<Transport>& g, lists_of_sizes numbers, F const& f)
      : pending_call(nullptr, prepared), engine_(g), numbers_(std::move(numbers)), f_(f) {}

  static void start(std::shared_ptr<pending_call> const& call) { static_cast<lone_call&>(*call).run(); }

 private:
  void run() {
    engine_.expect_no_fault({});
    restart();
    std::exception_ptr thrown;
    try {
      f_();
    } catch (...) {
      thrown = std::current_exception();
    }
    end(std::move(thrown));
    follower::run_due();
  }

  engine<Transport>& engine_;
  lists_of_sizes numbers_;
  F f_;
};
// It is done at once, but where it is only prepared.
template <communicating Comm, class F>
returned_by<Comm> call_alone(Comm& comm, F const& f) {
  using transport_type = typename Comm::transport_type;
  if constexpr (is_communicator<Comm> || is_asynchronous<Comm>) {
    engine_of(comm).expect_no_fault({});
    f();
    return returned_by<Comm>();
  } else {
    using call = lone_call<transport_type, F>;
    return comm.take(persistent(std::make_shared<call>(engine_of(comm), std::move(comm.numbers), f), call::start), {});
  }
}

// What a call says of its memory where buffers are checked: list(use) calls use.reads and use.writes, with pointers, or null,
// and bytes.
template <class List>
auto memory_of(collective what, char const* suffix, List const& list) {
  return [=](int rank, std::source_location where) {
    auto use = std::make_unique<buffers_in_use>(join({name(what), suffix}), rank, where);
    list(*use);
    return use;
  };
}
inline constexpr auto no_memory = [](int, std::source_location) { return std::unique_ptr<buffers_in_use>(); };

// Makes the call f(comm, kept...), with a communicator, or prepares it: then f gets what stands for one, and copies of `kept`.
template <class Algorithm, class Transport, class Memory, class F, class... Kept>
void call_on(communicator<Transport>& comm, options const& o, std::source_location where, Memory const&, F const& f,
             Kept const&... kept) {
  if (!on_only_node<Algorithm>(comm, o, where, [&](auto& node) { f(node, kept...); })) f(comm, kept...);
}

template <class Transport, class Memory, class F, class... Kept>
persistent prepare(engine<Transport>& g, lists_of_sizes& numbers, std::source_location where, Memory const& memory,
                   F const& f, Kept const&... kept) {
  auto& queue = in_flight<Transport>::of(g);
  auto held = std::make_shared<held_call<Transport, F, Kept...>>(queue, g, std::move(numbers), f, kept...);
  if (g.environment.checks_buffers) held->check(memory(g.rank(), where));
  return {std::move(held), [](std::shared_ptr<pending_call> const& call) {
            in_flight<Transport>::start(std::static_pointer_cast<queued_call<Transport>>(call));
          }};
}

template <class Algorithm, stands_in Comm, class Memory, class F, class... Kept>
returned_by<Comm> call_on(Comm& comm, options const& o, std::source_location where, Memory const& memory, F const& f,
                          Kept const&... kept) {
  static_assert(!std::is_same_v<Algorithm, native> && !in_two_levels<Algorithm>,
                "native and two_level wait inside; use them in blocking calls");
  if (o.algorithm == algorithm_id::native || o.algorithm == algorithm_id::two_level)
    refuse(comm.rank(), join({name(o.algorithm), " waits inside, and this call is only started"}),
           "name another algorithm, or none, or make a blocking call", where);
  persistent out;
  if (!on_only_node<Algorithm>(comm.blocking(), o, where, [&](auto& node) {
        out = prepare(node.engine(), comm.numbers, where, memory, f, kept...);
      }))
    out = prepare(comm.blocking().engine(), comm.numbers, where, memory, f, kept...);
  return comm.take(std::move(out), where);
}

// The call itself, from here on known to the other ranks.
template <class Transport>
running_call<Transport> open(communicator<Transport>& comm, request const& r, options const& o, std::string_view type,
                             std::string_view op, std::source_location where) {
  auto& g = comm.engine();
  auto const finish_started = [](auto& ranks) {
    if (pending_calls* const calls = ranks.started.get()) calls->finish();
  };
  finish_started(g);
  if constexpr (has_levels<Transport>)
    if (auto* const node = g.levels->only_node()) finish_started(node->engine());
  return running_call<Transport>(comm.engine(), r, o, type, op, where);
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
  return comm.engine().numbers;
}
template <stands_in Comm>
lists_of_sizes& numbers_of(Comm& comm) {
  return comm.numbers;
}

}  // namespace detail
}  // namespace tutti
