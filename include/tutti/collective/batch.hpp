// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// batch: messages and collectives that are made at once.
#pragma once

#include <cstdint>
#include <exception>
#include <memory>
#include <source_location>
#include <span>
#include <utility>
#include <vector>

#include "tutti/collective/coalesced.hpp"
#include "tutti/message/point_to_point.hpp"
#include "tutti/reduce/types.hpp"

namespace tutti {

// The work of a batch.
class batch_work : public work {
 public:
  batch_work() = default;
  batch_work(work all, std::vector<receive_work> receives) : work(std::move(all)), receives_(std::move(receives)) {}

  // What the receives have got, in their order. Waits as wait() does.
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

// Lists sends, receives and collectives, which run() or start() start together, as often as one likes. The order of messages
// in the list cannot make ranks wait for each other. Any collective takes a batch in place of the communicator, and all
// ranks list the same; all_reduces of one type, operation (without a state), algorithm and options share calls, as those of a
// list of arrays do, in place of the first of them. No call may use what another of the batch writes. Arguments are those of
// send, recv and the collectives, which throw the same. Known as group calls, and as a coalescing manager. It must go before
// its communicator.
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
class batch : public detail::stand_in<Transport> {
 public:
  explicit batch(communicator<Transport>& comm, coalescing const& bucket = {})
      : detail::stand_in<Transport>(comm), bucket_(bucket) {}

  template <buffer In>
  batch& send(In const& in, int to, int tag = 0, std::source_location where = std::source_location::current()) {
    detail::check_message(*this, "batch::send", to, tag, false, where);
    return add(detail::send_of(in, to, tag));
  }
  template <mutable_buffer Out>
  batch& recv(Out&& out, int from, int tag = 0, std::source_location where = std::source_location::current()) {
    detail::check_message(*this, "batch::recv", from, tag, true, where);
    return add(detail::receive_of(out, from, tag));
  }

  // Returns when all have ended: what the receives have got, in their order. The options are those of the messages.
  std::vector<received> run(options const& o = {}, std::source_location where = std::source_location::current()) {
    detail::check_options(*this, "batch::run", o, where);
    last_.expect_seen(where);
    std::vector<work> calls;
    std::vector<detail::transfer> all = messages_;
    std::exception_ptr thrown;
    try {
      start_calls(calls);
      detail::run_transfers(this->blocking(), all, o, where);
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

  // Returns before they have ended. All that is said of async holds of the calls, which are started in the order of the list.
  // They must have ended, and somebody must have seen that by the work, before they are started again: else bad_argument.
  // Where one cannot be started, those before it end first.
  batch_work start(options const& o = {}, std::source_location where = std::source_location::current()) {
    detail::check_options(*this, "batch::start", o, where);
    last_.expect_seen(where);
    std::vector<work> all;
    std::vector<receive_work> receives;
    detail::start_all(all, [&] {
      start_calls(all);
      for (auto const what : {detail::transfer::receive, detail::transfer::send})
        for (detail::transfer const& t : messages_) {
          if (t.what != what) continue;
          auto const make = [&] { return t; };
          auto const begun =
              t.ended ? detail::begun_transfer{} : detail::start_transfer(this->blocking(), make, o, where);
          all.emplace_back(begun.call);
          if (what == detail::transfer::receive) receives.emplace_back(begun, t.element_bytes);
        }
    });
    return last_ = {detail::joined(all), std::move(receives)};
  }

  // For the collectives.
  using returned = void;
  static constexpr bool coalesces = true;
  void take(persistent call, std::source_location) { calls_.push_back(std::make_unique<single>(std::move(call))); }
  template <class Algorithm, class T, class Op>
  void coalesce(T const* in, T* out, std::size_t count, Op const& op, options const& o, std::source_location where) {
    using reductions = several<Algorithm, T, Op>;
    for (auto const& call : calls_)
      if (call->kind == &kind_of<reductions>)
        if (auto& same = static_cast<reductions&>(*call); same.o == o) return same.all.add({in, out, count});
    auto added = std::make_unique<reductions>(this->blocking(), op, o, bucket_, where);
    added->all.add({in, out, count});
    calls_.push_back(std::move(added));
  }

 private:
  template <class Call>
  static inline char kind_of{};  // its address tells

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
        : listed(&kind_of<several>), o(asked), all(comm, op, asked, bucket, where) {}
    void start(std::vector<work>& works) override { all.start(works); }
    options o;
    detail::coalesced_reductions<Algorithm, Transport, T, Op> all;
  };

  batch& add(detail::transfer const& t) {
    messages_.push_back(t);
    return *this;
  }
  void start_calls(std::vector<work>& works) {
    for (auto const& call : calls_) call->start(works);
  }

  coalescing bucket_;
  batch_work last_;
  std::vector<detail::transfer> messages_;
  std::vector<std::unique_ptr<listed>> calls_;
};

}  // namespace tutti
