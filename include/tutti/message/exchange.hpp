// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The messages of a communicator that are in flight, and the threads that wait for them.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <new>
#include <source_location>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include "tutti/call/communicator.hpp"
#include "tutti/fault/message_history.hpp"
#include "tutti/message/faults.hpp"
#include "tutti/message/messenger.hpp"
#include "tutti/message/started_transfer.hpp"
#include "tutti/started/queue.hpp"

namespace tutti::detail {

// Messages are independent of the calls of their communicator, travel on tracks of their own, and end in any order. A fault is
// raised on the communicator, like that of a call: all ranks get it, and every message in flight ends with it.
template <class Transport>
class exchange final : public call_queue<Transport> {
 public:
  static exchange& of(engine<Transport>& g) {
    return static_cast<exchange&>(g.messages.get_or([&] { return std::make_unique<exchange>(g); }));
  }

  explicit exchange(engine<Transport>& g)
      : call_queue<Transport>(g), messenger_(g.transport()), faults_(g, messenger_) {
    g.note_messages(&history_);
  }
  ~exchange() override {
    this->close();
    engine_.note_messages(nullptr);
  }

  // Starts all transfers, receives first, and returns when they have ended.
  void run(std::span<transfer> all, std::chrono::nanoseconds timeout, std::source_location where) {
    follower::at_end const runs_due;
    expect_usable(where);
    for (transfer& t : all) t.blocking = true;
    bool started = false;
    auto const look = [&] {
      std::lock_guard const lock(busy_);
      progress_list::moving const now;
      progress reached = progress::stuck;
      attempt([&] {
        if (!std::exchange(started, true)) start(all, where);
        reached = poll_messages(where, true);
      });
      return all_ended(all) ? progress::done : reached;
    };
    countdown time(timeout_of(timeout));
    auto const nap = [&](auto const& ready) {
      if (alone()) return false;  // no other rank could send or receive
      announce_and_nap(ready, [&] { return first_unfinished(all); });
      attempt_locked([&] {
        for (transfer const& t : all) expect_partner(t, where);
      });
      return true;
    };
    if (!wait_until_done(look, engine_.transport().waits(), time, nap))
      attempt_locked([&] {
        poll_messages(where);  // other threads may have made progress since the last poll
        if (!all_ended(all)) faults_.raise_timeout(*first_unfinished(all), timeout_of(timeout), where);
      });
    clear_awaited();
    stop_waiting(where);
    expect_no_fault(where);
  }

  // Starts a transfer. One that ends at once, as most do, takes no memory and reads no clock. make() returns the transfer, which
  // is constructed in place: a copy would stall on its stores, queued behind those of the last message, whose cache line is at
  // another core. That took half of the time of many small messages.
  template <class Make>
  begun_transfer begin(Make&& make, std::chrono::nanoseconds timeout, std::source_location where) {
    if (engine_.environment.checks_buffers) return begin_kept(make(), nullptr, timeout, where);
    expect_usable(where);
    follower::at_end const runs_due;
    std::lock_guard const lock(busy_);
    progress_list::moving const now;
    if (!spare_) spare_ = std::make_shared<started_transfer>(*this);
    transfer& t = *::new (&spare_->message) transfer(make());
    try {
      attempt([&] {
        start(t, where);
        if (!t.ended) poll_messages(where);
      });
    } catch (...) {
      spare_->begin_now();
      spare_->end(std::current_exception());
      return {std::move(spare_)};
    }
    if (messenger_.take_ended_count() > std::size_t{t.ended}) end_finished();
    if (t.ended) {
      history_.end(t);
      if (std::exception_ptr const found = fault(where)) {
        spare_->begin_now();
        spare_->end(found);
        return {std::move(spare_)};
      }
      return t.what == transfer::send ? begun_transfer{} : begun_transfer{nullptr, t.source, t.source_tag, t.got};
    }
    spare_->limit = timeout_of(timeout);
    spare_->time = countdown(spare_->limit);
    spare_->place = where;
    spare_->begin_now();
    started_.push_back(spare_);
    this->count_started();
    return {std::move(spare_)};
  }

  // The same for one that needs memory: for its copy of an array with gaps, or for the check of its buffers.
  begun_transfer begin_kept(transfer const& t, shared_gaps gaps, std::chrono::nanoseconds timeout,
                            std::source_location where) {
    auto call = keep(t, std::move(gaps), timeout, where);
    call->start_checked([&] { add(call); });
    return {std::move(call)};
  }

  template <class Operation>
  Operation prepare(transfer const& t, shared_gaps gaps, std::chrono::nanoseconds timeout, std::source_location where) {
    return Operation(keep(t, std::move(gaps), timeout, where), [](std::shared_ptr<pending_call> const& call) {
      static_cast<exchange*>(call->queue())->add(std::static_pointer_cast<started_transfer>(call));
    });
  }

  // Repeated tests count as waiting.
  progress advance() noexcept override {
    progress const reached = call_queue<Transport>::advance();
    if (reached != progress::stuck) polls_.store(0, std::memory_order_relaxed);
    else if (!alone() && polls_.fetch_add(1, std::memory_order_relaxed) % many_polls == many_polls - 1)
      announce_wait([&] { return started_.empty() ? nullptr : &started_.front()->message; });
    return reached;
  }
  bool wait(pending_call const* one, deadline until) override {
    follower::at_end const runs_due;  // also for what ends in stop_waiting()
    auto const awaited = [&]() -> transfer const* {
      for (auto const& s : started_)
        if (s.get() == one) return &s->message;
      return started_.empty() ? nullptr : &started_.front()->message;  // the caller waits for several
    };
    bool const done = this->wait_for(one, until, [&](auto const& ready) {
      if (alone()) std::this_thread::sleep_for(idler::rest);
      else announce_and_nap(ready, awaited);
      return true;
    });
    clear_awaited();
    stop_waiting(std::source_location::current());
    return done;
  }

 private:
  using call_queue<Transport>::busy_;
  using call_queue<Transport>::engine_;

  static transfer* first_unfinished(std::span<transfer> all) {
    for (transfer& t : all)
      if (!t.ended) return &t;
    return nullptr;
  }
  bool alone() const noexcept { return engine_.ranks() == 1; }
  std::chrono::nanoseconds timeout_of(std::chrono::nanoseconds requested) const {
    return requested.count() > 0 ? requested : engine_.environment.timeout;
  }
  // Throws a fault that the communicator has. The caller may then release the memory of all transfers, so they end first.
  void expect_no_fault(std::source_location where) {
    if (alone()) return engine_.process.expect_this(where);
    try {
      engine_.expect_no_fault(where);
    } catch (...) {
      if (engine_.process.is_this()) {
        std::lock_guard const lock(busy_);
        drop_all(std::current_exception());
      }
      throw;
    }
  }
  void expect_usable(std::source_location where) {
    if constexpr (bound_to_thread<Transport>) engine_.transport().expect_thread();
    expect_no_fault(where);
    this->use_here();
  }

  std::shared_ptr<started_transfer> keep(transfer const& t, shared_gaps gaps, std::chrono::nanoseconds timeout,
                                         std::source_location where) {
    std::unique_ptr<buffers_in_use> use;
    if (engine_.environment.checks_buffers && t.peer != no_rank) {
      bool const sends = t.what == transfer::send;
      use = std::make_unique<buffers_in_use>(sends ? "send" : "recv", engine_.rank(), where);
      if (gaps) gaps->list_buffers(*use, sends);
      else if (sends) use->reads(t.from, t.bytes);
      else use->writes(t.to, t.bytes);
    }
    auto out = std::make_shared<started_transfer>(*this, t, std::move(gaps), timeout_of(timeout), where);
    if (use) out->check(std::move(use));
    return out;
  }
  void add(std::shared_ptr<started_transfer> const& call) {
    expect_usable(call->place);
    follower::at_end const runs_due;
    std::lock_guard const lock(busy_);
    call->restart();
    if (call->message.ended) return call->end(nullptr);  // to or from no_rank
    started_.push_back(call);
    this->count_started();
    try {
      attempt([&] { start(call->message, call->place); });
    } catch (...) {
    }  // the transfer holds the exception
    move(false);
  }

  // A rank that has waited long announces on the notice board which transfer it waits for, and writes a flight record where one
  // was requested. awaited(), called under the lock, returns that transfer or null.
  template <class Awaited>
  void announce_wait(Awaited&& awaited) {
    if (!announced_) {
      std::lock_guard const lock(busy_);
      if (transfer const* const t = awaited()) {
        auto const record = history_.find(t->number);
        std::uint64_t const place = record ? (*record)[place_word] : 0;
        engine_.notices().set_awaited(at_place(to_words(*t), place));
        announced_ = true;
      }
    }
    engine_.record_where_asked();
  }
  template <class Ready, class Awaited>
  void announce_and_nap(Ready const& ready, Awaited&& awaited) {
    announce_wait(awaited);
    engine_.transport().nap(ready);
  }
  // Withdraws the announcement. It stays after a fault, for peers that look for the reason of theirs.
  void clear_awaited() noexcept {
    if (announced_ && announced_.exchange(false))
      engine_.notices().clear_awaited();  // test first: an atomic exchange would wait until all stores have drained
  }

  // Other threads that still wait set the flag again when they poll next.
  void stop_waiting(std::source_location where) noexcept {
    if (!must_stop_waiting_.load(std::memory_order_relaxed)) return;
    std::lock_guard const lock(busy_);
    progress_list::moving const now;
    if (!started_.empty()) where = started_.front()->place;
    must_stop_waiting_.store(false, std::memory_order_relaxed);
    try {
      attempt([&] {
        messenger_.stop_waiting();
        if (messenger_.failure()) faults_.raise_failure(messenger_.failure(), where);
      });
    } catch (...) {
    }  // the transfers hold the exception
    if (messenger_.take_ended_count() > 0) end_finished();
  }

  // -- Under the lock.

  bool all_ended(std::span<transfer> all) {
    if (first_unfinished(all) != nullptr) return false;
    for (transfer const& t : all) history_.end(t);
    return true;
  }
  void start(std::span<transfer> all, std::source_location where) {
    for (auto const what : {transfer::receive, transfer::send})
      for (transfer& t : all)
        if (t.what == what && !t.ended) start(t, where);
  }
  void start(transfer& t, std::source_location where) {
    history_.begin(t, places_.word_of(where, [&] { return engine_.shared_place(where); }));
    if (std::exchange(last_named_type_, t.type) != t.type) engine_.introduce(t.type, t.type_name);
    messenger_.start(t);
  }
  // `waits`: this thread calls stop_waiting() in the end.
  progress poll_messages(std::source_location where, bool waits = false) {
    progress const reached = messenger_.poll(waits);
    if (waits && messenger_.must_stop_waiting()) must_stop_waiting_.store(true, std::memory_order_relaxed);
    if (messenger_.failure()) faults_.raise_failure(messenger_.failure(), where);
    return reached;
  }
  progress move(bool waits) noexcept override {
    progress_list::moving const now;
    if (started_.empty()) return progress::stuck;
    progress reached = progress::stuck;
    auto const where = started_.front()->place;
    try {
      attempt([&] {
        reached = poll_messages(where, waits);
        if (reached == progress::stuck && this->time_to_examine()) examine_started();
      });
    } catch (...) {
    }  // the transfers hold the exception
    if (messenger_.take_ended_count() > 0) end_finished();
    return reached;
  }
  void examine_started() {
    if constexpr (queries_peers<Transport>) engine_.transport().poll_notices();
    for (std::size_t i = 0; i < started_.size(); ++i) {
      started_transfer& s = *started_[i];
      expect_partner(s.message, s.place);
      if (!s.message.ended && s.time.passed()) faults_.raise_timeout(s.message, s.limit, s.place);
    }
  }
  void end_finished() noexcept {
    if (!started_.empty()) end_started([](auto const& s) { return s.message.ended; }, fault(started_.front()->place));
    clear_awaited();
  }
  // The fault of the communicator, or null. After one, a sender may have changed memory that this rank has just fetched.
  std::exception_ptr fault(std::source_location where) noexcept {
    try {
      if (!alone()) engine_.expect_no_fault(where);
    } catch (...) {
      return std::current_exception();
    }
    return nullptr;
  }
  template <class Which>
  void end_started(Which&& which, std::exception_ptr const& thrown) noexcept {
    if (started_.empty()) return;
    auto const now = pending_call::clock::now();
    std::erase_if(started_, [&](auto const& s) {
      if (!which(*s)) return false;
      if (s->message.ended) history_.end(s->message);
      s->end(thrown, now);
      this->count_ended();
      return true;
    });
  }

  // If f throws, drops all transfers and ends those that were started with its exception.
  template <class F>
  void attempt(F&& f) {
    try {
      f();
    } catch (...) {
      drop_all(std::current_exception());
      throw;
    }
  }
  [[gnu::cold]] void drop_all(std::exception_ptr const& thrown) noexcept {
    messenger_.drop_all();
    this->stop_others_if_faulty();
    end_started([](auto const&) { return true; }, thrown);
  }
  template <class F>
  void attempt_locked(F&& f) {
    std::lock_guard const lock(busy_);
    progress_list::moving const now;
    attempt(f);
  }
  [[gnu::cold]] void give_up() noexcept override {
    try {
      attempt_locked([&] {
        if (!started_.empty()) faults_.raise_given_up(started_.front()->message, started_.front()->place);
      });
    } catch (...) {
    }
  }

  void end_all() noexcept override {
    if (std::exception_ptr const found = fault({})) drop_all(found);
  }

  // -- Faults.

  // Throws if a rank that the transfer needs has ended or left, or if there is any other fault.
  [[gnu::cold]] void expect_partner(transfer const& t, std::source_location where) {
    if (alone()) return;
    engine_.expect_no_fault_anywhere(where);
    if (t.ended) return;
    if (auto const gone = faults_.find_departure(t)) receive_or_raise(t, gone->code, gone->peer, where);
  }
  // Messages that a rank sent before it went are received first.
  void receive_or_raise(transfer const& t, error_code code, int peer, std::source_location where) {
    while (!t.ended && poll_messages(where) != progress::stuck) {
    }
    if (t.ended) return;
    faults_.raise_departure(t, code, peer, where);
  }

  messenger<Transport> messenger_;
  message_faults<Transport> faults_;
  message_history history_;
  shared_places places_;
  std::atomic<bool> announced_ = false;          // the notice board names what this rank waits for
  static constexpr unsigned many_polls = 32;     // before this rank announces its wait
  std::atomic<unsigned> polls_ = 0;              // without progress, by any thread
  std::atomic<bool> must_stop_waiting_ = false;  // peers rely on this rank to keep polling
  std::uint32_t last_named_type_ = 0;
  std::vector<std::shared_ptr<started_transfer>> started_;
  std::shared_ptr<started_transfer> spare_;  // for the next one that is started
};

// Calls f with the exchange of the communicator, or of its node if all ranks are on a single one.
template <class Transport, class F>
decltype(auto) with_exchange(communicator<Transport>& comm, std::source_location where, F&& f) {
  if constexpr (has_levels<Transport>)
    if (auto* const node = comm.engine().levels->only_node()) {
      comm.engine().transport().expect_thread();
      if (comm.size() > 1) expect_no_fault_around(comm.engine(), node->engine(), where);
      return f(exchange<typename Transport::inside>::of(node->engine()));
    }
  return f(exchange<Transport>::of(comm.engine()));
}

}  // namespace tutti::detail
