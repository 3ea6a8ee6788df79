// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// batch: messages and collectives that start together.
#pragma once

#include <exception>
#include <memory>
#include <source_location>
#include <type_traits>
#include <utility>
#include <vector>

#include "tutti/collective/coalesced.hpp"
#include "tutti/collective/lasting_reference.hpp"
#include "tutti/message/point_to_point.hpp"
#include "tutti/reduce/types.hpp"

namespace tutti {

// The work of a batch.
class batch_work : public work {
 public:
  batch_work() = default;
  batch_work(work all, std::vector<receive_work> receives) : work(std::move(all)), receives_(std::move(receives)) {}

  // The results of the receives, in their order. Waits as wait() does.
  std::vector<received> get() {
    wait();
    std::vector<received> out;
    for (receive_work& r : receives_) out.push_back(r.get());
    return out;
  }

 private:
  template <transport Transport>
  friend class batch;

  std::vector<receive_work> receives_;
};

// Collects sends, receives and collectives, which run() or start() then start together, any number of times. The order
// of messages in the batch cannot make ranks wait for each other. Any collective accepts a batch in place of the
// communicator, and all ranks add the same collectives. Several all_reduces of one type, operation (without state),
// algorithm and set of options share calls, as those of a list of arrays do, at the place of the first of them. Those of
// arrays that may have gaps have calls of their own, so all ranks pass such an array, or all pass a contiguous range. The
// calls must be independent: none uses memory that another writes. run() and start() refuse all_reduces that would share
// a call and are not (bad_argument). Arguments and errors are those of send, recv and the collectives.
// Other libraries call this group calls or a coalescing manager. A batch stays with its communicator when that is moved, and
// throws bad_argument once that is destroyed.
//
//   tutti::batch halos(comm);
//   for (auto& side : sides) halos.send(side.edge, side.rank).recv(side.halo, side.rank);
//   halos.run();
//
//   tutti::batch all(comm);
//   for (auto& gradient : gradients) tutti::all_reduce(all, gradient);
//   tutti::all_gather(all, loss, losses);
//   tutti::work done = all.start();
template <transport Transport>
class batch {
 public:
  using transport_type = Transport;

  explicit batch(communicator<Transport>& comm, coalescing const& bucket = {}) : comm_(comm), bucket_(bucket) {}

  int rank() const noexcept { return comm_.rank(); }
  int size() const noexcept { return comm_.size(); }

  // The arguments are those of tutti::send and tutti::recv.
  template <class In>
  batch& send(In&& in, int to, int tag = 0, std::source_location where = std::source_location::current()) {
    if constexpr (detail::accepts_sent<batch&, In>()) {
      auto const given = detail::inputs(in);
      detail::check_message(*this, "batch::send", given, to, tag, false, where);
      auto const sent = detail::message_array_of<detail::element_in<In> const>(given);
      messages_.push_back(detail::send_of(sent.elements, to, tag));
      gaps_.push_back(sent.gaps);
    }
    return *this;
  }
  template <class Out>
  batch& recv(Out&& out, int from, int tag = 0, std::source_location where = std::source_location::current()) {
    if constexpr (detail::accepts_received<batch&, Out>()) {
      auto const wanted = detail::elements(out);
      detail::check_message(*this, "batch::recv", wanted, from, tag, true, where);
      auto const taken = detail::message_array_of<detail::element_in<Out>>(wanted);
      messages_.push_back(detail::receive_of(taken.elements, from, tag));
      gaps_.push_back(taken.gaps);
    }
    return *this;
  }

  // Returns the results of the receives, in their order, when all calls have ended. The options apply to the messages.
  std::vector<received> run(options const& o = {}, std::source_location where = std::source_location::current()) {
    detail::check_options(*this, "batch::run", o, where);
    communicator<Transport>& comm = blocking(where);
    last_.expect_seen(rank(), where);
    std::vector<work> calls;
    std::vector<detail::transfer> all = messages_;
    std::exception_ptr thrown;
    try {
      start_calls(calls);
      detail::run_transfers(comm, all, gaps_, o, where);
    } catch (...) {
      thrown = std::current_exception();
    }
    try {
      wait_for_all(calls);
    } catch (...) {
      if (!thrown) thrown = std::current_exception();
    }
    if (thrown) std::rethrow_exception(thrown);
    std::vector<received> out;
    for (detail::transfer const& t : all)
      if (t.what == detail::transfer::receive) out.push_back(detail::received_of(t));
    return out;
  }

  // Returns while the calls are in progress. Everything said of async applies to them; they start in the order of the
  // batch. They must have ended, and test() or wait() of the work must have reported it, before they are started again:
  // else bad_argument. If one cannot be started, those before it end first.
  batch_work start(options const& o = {}, std::source_location where = std::source_location::current()) {
    detail::check_options(*this, "batch::start", o, where);
    communicator<Transport>& comm = blocking(where);
    last_.expect_seen(rank(), where);
    std::vector<work> all;
    std::vector<receive_work> receives;
    detail::start_all(all, [&] {
      start_calls(all);
      for (auto const what : {detail::transfer::receive, detail::transfer::send})
        for (std::size_t i = 0; i < messages_.size(); ++i) {
          detail::transfer const& t = messages_[i];
          if (t.what != what) continue;
          auto const make = [&] { return t; };
          auto const begun =
              t.ended ? detail::begun_transfer{} : detail::start_transfer(comm, make, gaps_[i], o, where);
          all.emplace_back(begun.call);
          if (what == detail::transfer::receive) receives.emplace_back(begun, t.element_bytes);
        }
    });
    return last_ = {detail::joined(all), std::move(receives)};
  }

  // For the collectives.
  using returned = void;
  communicator<Transport>& blocking(std::source_location where = {}) const {
    if (comm_.was_moved_from())
      detail::refuse(-1, "this batch was moved from", "use the batch that it was moved to", where);
    if (comm_.expired()) detail::refuse_to_outlive(rank(), "a batch", "make another", where);
    comm_.get().expect_usable(where);
    return comm_.get();
  }
  void accept(persistent call, std::source_location) { calls_.push_back(std::make_unique<single>(std::move(call))); }
  template <class Call, class Packing = detail::nothing_to_pack>
  void defer(Call&& call, Packing&& packing = {}) {
    std::source_location const where = call.where;
    accept(detail::prepare(blocking(where), std::forward<Call>(call), std::forward<Packing>(packing)), where);
  }
  // Groups all_reduces of one operation; two operations with state cannot be compared.
  template <class Algorithm, class T, class Op>
    requires std::is_empty_v<Op>
  void defer(detail::reduction<collective::all_reduce, Algorithm, T, Op>&& call, detail::nothing_to_pack&& = {}) {
    using reductions = several<Algorithm, T, Op>;
    options const o{call.asked.algorithm, call.asked.how, call.timeout};
    detail::piece<T> const array{call.memory.in, call.memory.out, static_cast<std::size_t>(call.asked.count)};
    for (auto const& one : calls_)
      if (one->kind == &kind_of<reductions>)
        if (auto& same = static_cast<reductions&>(*one); same.o == o) return same.all.add(array);
    auto added = std::make_unique<reductions>(blocking(call.where), call.body.op, o, bucket_, call.where);
    added->all.add(array);
    calls_.push_back(std::move(added));
  }

 private:
  template <class Call>
  static inline char kind_of{};  // its address identifies the type of a listed call

  struct listed {
    explicit listed(char const* k) : kind(k) {}
    virtual ~listed() = default;
    virtual void start(std::vector<work>& works) = 0;
    char const* kind;
  };
  struct single final : listed {
    explicit single(persistent c) : listed(&kind_of<single>), call(std::move(c)) {}
    void start(std::vector<work>& works) override {
      call.start();
      works.push_back(call);
    }
    persistent call;
  };
  template <class Algorithm, class T, class Op>
  struct several final : listed {
    several(communicator<Transport>& comm, Op const& op, options const& asked, coalescing const& bucket,
            std::source_location where)
        : listed(&kind_of<several>), o(asked), all(comm, op, asked, bucket, where) {
      all.are_separate_calls();
    }
    void start(std::vector<work>& works) override { all.start(works); }
    options o;
    detail::coalesced_reductions<Algorithm, Transport, T, Op> all;
  };

  void start_calls(std::vector<work>& works) {
    for (auto const& call : calls_) call->start(works);
  }

  detail::lasting_reference<Transport> comm_;
  coalescing bucket_;
  batch_work last_;
  std::vector<detail::transfer> messages_;
  std::vector<detail::shared_gaps> gaps_;  // by message
  std::vector<std::unique_ptr<listed>> calls_;
};

namespace detail {

template <class Comm>
struct refused_batch {
  using transport = std::bool_constant<expect_communicator<Comm>()>;
};

}  // namespace detail

// Refused with a sentence: a batch of anything but a communicator that is not const.
template <class Comm>
  requires(!requires { typename std::remove_cvref_t<Comm>::transport_type; } ||
           std::is_const_v<std::remove_reference_t<Comm>>)
batch(Comm&&, coalescing const& = {}) -> batch<typename detail::refused_batch<Comm>::transport>;

}  // namespace tutti
