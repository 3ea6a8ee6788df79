// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A collective that is kept, to be started any number of times: what async(comm) starts and prepared(comm) returns.
#pragma once

#include <exception>
#include <memory>
#include <new>
#include <source_location>
#include <type_traits>
#include <utility>

#include "tutti/call/perform.hpp"
#include "tutti/core/is_a.hpp"
#include "tutti/started/buffer_check.hpp"
#include "tutti/started/collective_queue.hpp"
#include "tutti/started/make_call.hpp"
#include "tutti/started/work.hpp"

namespace tutti::detail {

// A copy of a call and its operation with the state of its execution. Starting a call again allocates nothing.
template <class Call>
struct kept_call {
  explicit kept_call(Call&& c) : call(std::move(c)) {}
  Call call;
};
template <collective C, class Algorithm, class T, class Op, class Memory>
struct kept_call<reduction<C, Algorithm, T, Op, Memory>> {
  explicit kept_call(reduction<C, Algorithm, T, Op, Memory>&& c)
      : op(c.body.op), call{std::move(static_cast<call_terms&>(c)), std::move(c.memory), {op}} {}
  Op op;
  reduction<C, Algorithm, T, Op, Memory> call;
};

// The memory of the caller that a call uses between its start and its end, if buffers are checked.
template <class Call, class Packing>
std::unique_ptr<buffers_in_use> buffers_of(Call const& c, Packing const& packing, int rank, int ranks) {
  auto use = std::make_unique<buffers_in_use>(join({name(Call::what), c.asked.ragged ? "_v" : ""}), rank, c.where);
  if constexpr (std::is_base_of_v<nothing_to_pack, Packing>) c.memory.list_buffers(*use, c.asked, rank, ranks);
  else packing.list_buffers(*use);
  return use;
}

template <class Transport, class Call, class Packing>
class held_call final : public queued_call<Transport> {
 public:
  held_call(collective_queue<Transport>& queue, engine<Transport>& on, Call&& c, Packing&& packing)
      : queued_call<Transport>(queue, on), kept_(std::move(c)), packing_(std::move(packing)) {
    kept_.call.asked.started = true;
    if (on.environment.checks_buffers) this->check(buffers_of(kept_.call, packing_, on.rank(), on.ranks()));
  }

 private:
  using parts = in_bytes<Transport, Call>;
  static constexpr bool may_be_packets = detail::may_be_packets<Transport, decltype(Call::memory)>;
  static constexpr bool may_be_eager = detail::may_be_eager<Transport, decltype(Call::memory)>;
  using layout = layout_for<decltype(Call::memory)>;
  using slices = slices_for<Transport, layout>;
  using packets = std::conditional_t<may_be_packets, packet_execution<Call::what, Transport>, slices>;
  using eager = std::conditional_t<may_be_eager, eager_execution<Call::what, Transport>, slices>;

  call_terms const& terms() const noexcept override { return kept_.call; }
  void begin(begun_call<Transport> const& begun) override {
    Call const& c = kept_.call;
    auto const& memory = memory_in_bytes(c.memory);
    packing_.pack();
    kind_ = kind_of(this->engine_, begun.plan(), c.asked, memory);
    if constexpr (may_be_packets)
      if (kind_ == execution_kind::packets) {
        auto const& all = pack<Call::what>(this->engine_, memory);
        ::new (&packets_)
            packets(packets_of<Call::what>(this->engine_, begun, c.asked, c.body.in_bytes(), all.in, all.out));
        return;
      }
    if constexpr (may_be_eager)
      if (kind_ == execution_kind::eager) {
        auto const& all = pack<Call::what>(this->engine_, memory);
        ::new (&eager_) eager(eager_of<Call::what>(this->engine_, begun, c.asked, c.body.in_bytes(), all.in, all.out));
        return;
      }
    surfaces_ = {.input = {}, .output = {}, .scratch = {}};
    ::new (&slices_) slices(parts::slices(this->engine_, begun, c.asked, c.body.in_bytes(), memory, surfaces_));
  }
  progress poll() override {
    if (kind_ == execution_kind::packets) return this->engine_.poll(packets_);
    return kind_ == execution_kind::eager ? this->engine_.poll(eager_) : this->engine_.poll(slices_);
  }
  void succeed() override {
    packing_.unpack();
    if constexpr (is_a<decltype(Call::memory), gapped_memory>)
      if (kind_ != execution_kind::slices) unpack(this->engine_, kept_.call.memory);
  }
  protocol_violation const& found() const noexcept override {
    if (kind_ == execution_kind::packets) return packets_.found();
    return kind_ == execution_kind::eager ? eager_.found() : slices_.found();
  }

  kept_call<Call> kept_;
  [[no_unique_address]] Packing packing_;
  surfaces<std::byte, layout> surfaces_{.input = {}, .output = {}, .scratch = {}};
  execution_kind kind_{};
  union {
    packets packets_;
    eager eager_;
    slices slices_;
  };
  static_assert(std::is_trivially_destructible_v<packets> && std::is_trivially_destructible_v<eager> &&
                std::is_trivially_destructible_v<slices>);
  static_assert(sizeof(typename Call::element) <= Transport::slice_bytes,
                "an element must fit into a slice (16 KiB over shared memory); send larger structs in parts");
};

// For a communicator of one rank, whose calls end when they start.
template <class Transport, class Call, class Packing>
class lone_call final : public pending_call {
 public:
  lone_call(engine<Transport>& on, Call&& c, Packing&& packing)
      : pending_call(nullptr, prepared), engine_(on), kept_(std::move(c)), packing_(std::move(packing)) {}

  static void start(std::shared_ptr<pending_call> const& call) { static_cast<lone_call&>(*call).run(); }

 private:
  void run() {
    restart();
    std::exception_ptr thrown;
    try {
      run_alone(engine_, kept_.call, packing_);
    } catch (...) {
      thrown = std::current_exception();
    }
    end(std::move(thrown));
    follower::run_due();
  }

  engine<Transport>& engine_;
  kept_call<Call> kept_;
  [[no_unique_address]] Packing packing_;
};

template <class Transport, class Call, class Packing>
persistent hold(engine<Transport>& on, Call&& c, Packing&& packing) {
  auto& queue = collective_queue<Transport>::of(on);
  return {
      make_call<held_call<Transport, Call, Packing>>(queue, on, std::forward<Call>(c), std::forward<Packing>(packing)),
      collective_queue<Transport>::start, on.reference(), on.rank()};
}

// Refuses to start a call by an algorithm that waits inside. If it could not carry out a blocking call either, that is the reason.
template <class Transport>
[[noreturn, gnu::cold]] void refuse_to_start(engine<Transport>& on, request const& asked, schedule_finder& schedules,
                                             std::source_location where) {
  auto const why = objection(asked.algorithm, problem_of(on, asked, schedules));
  if (why.empty())
    refuse(on.rank(), join({name(asked.algorithm), " blocks internally, so it cannot run asynchronously"}),
           "name another algorithm or none, or make a blocking call", where);
  refuse(on.rank(), join({name(asked.algorithm), " cannot do ", name(asked.what), ": ", why}),
         "name another algorithm or none", where);
}

// Keeps a call on this communicator, to be started any number of times.
template <class Transport, class Call, class Packing>
persistent prepare(communicator<Transport>& comm, Call&& c, Packing&& packing) {
  static_assert(may_be_scheduled<Call>, "native and two_level block internally; use them only in blocking calls");
  comm.expect_usable(c.where);
  if (comm.size() == 1)
    return {make_call<lone_call<Transport, Call, Packing>>(comm.engine(), std::forward<Call>(c),
                                                           std::forward<Packing>(packing)),
            lone_call<Transport, Call, Packing>::start, comm.engine().reference(), comm.rank()};
  algorithm_id const asked = c.asked.algorithm;
  if (asked == algorithm_id::native || asked == algorithm_id::two_level)
    refuse_to_start(comm.engine(), c.asked, find_schedule_of<Call::what>, c.where);
  if (auto* const node = node_for<typename Call::algorithm>(comm, asked, c.where))
    return hold(node->engine(), std::forward<Call>(c), std::forward<Packing>(packing));
  return hold(comm.engine(), std::forward<Call>(c), std::forward<Packing>(packing));
}

}  // namespace tutti::detail
