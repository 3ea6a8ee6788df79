// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Starts the messages of a communicator, and waits for them.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <source_location>
#include <span>
#include <thread>
#include <utility>

#include "tutti/call/communicator.hpp"
#include "tutti/core/recycled.hpp"
#include "tutti/message/in_flight.hpp"
#include "tutti/message/losses.hpp"
#include "tutti/message/rare_looks.hpp"
#include "tutti/message/started_transfer.hpp"
#include "tutti/started/queue.hpp"

namespace tutti::detail {

// Messages are independent of the calls of their communicator, travel on tracks of their own, and end in any order.
template <class Transport>
class exchange final : public messages_in_flight<Transport> {
 public:
  static exchange& of(engine<Transport>& g) {
    return static_cast<exchange&>(g.messages.get_or([&] { return std::make_unique<exchange>(g); }));
  }

  explicit exchange(engine<Transport>& g) : messages_in_flight<Transport>(g) {}
  ~exchange() override {
    bool const sound = !engine_.has_fault() && !engine_.unwinding.begun();
    {
      std::lock_guard const lock(busy_);
      in_flight::closes_ = sound;
    }
    this->close();
    if (sound && !engine_.has_fault()) print_unreceived(engine_, messenger_);
  }

  // Starts all transfers, receives first, and returns when they have ended.
  void run(std::span<transfer> all, std::chrono::nanoseconds timeout, std::source_location where) {
    follower::at_end const runs_due;
    expect_usable(where);
    for (transfer& t : all) t.blocking = true;
    bool started = false;
    if (all.size() == 1 && all.front().what == transfer::send) {
      if (send_at_once(all.front(), where)) return expect_no_fault(where);
      started = true;
    }
    auto const look = [&] {
      std::lock_guard const lock(busy_);
      auto const now = progress_list::moving();
      progress reached = progress::stuck;
      attempt([&] {
        if (!std::exchange(started, true)) start(all, where);
        reached = poll_messages(where, true);
      });
      return all_ended(all) ? progress::done : reached;
    };
    countdown time(engine_.timeout_for(timeout));
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
        if (!all_ended(all)) faults_.raise_timeout(*first_unfinished(all), engine_.timeout_for(timeout), where);
      });
    clear_awaited();
    stop_waiting(where);
    expect_no_fault(where);
  }

  // Looks once for the message that a probe asks for. It is no part of the history, which a loop of them would fill.
  void look_for(transfer& probe, std::source_location where) {
    follower::at_end const runs_due;
    expect_usable(where);
    std::lock_guard const lock(busy_);
    auto const now = progress_list::moving();
    attempt([&] {
      messenger_.start(probe);
      if (!probe.ended) poll_messages(where);
      if (!probe.ended && probing_.is_due()) {
        this->examine_started();
        expect_partner(probe, where);
      }
      if (!probe.ended) messenger_.withdraw(probe);
    });
    this->end_finished(messenger_.take_ended_count());
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
    auto const now = progress_list::moving();
    if (!spare_) {
      this->list_in_process();
      spare_ = std::allocate_shared<started_transfer>(recycled<started_transfer>(), *this);
    }
    transfer& t = *::new (&spare_->message) transfer(make());
    bool const looks = t.what == transfer::receive && rare_looks_.pays_at_receive(messenger_.has_sent_last());
    try {
      attempt([&] {
        bool const settled = start(t, where, looks);
        // A receive that looks moves all that is in flight, also if it ends at once.
        if (!settled || (looks && !started_.empty())) poll_messages(where);
        if (t.ended) return;
        spare_->limit = engine_.timeout_for(timeout);
        spare_->time = countdown(spare_->limit);
        spare_->place = where;
        started_.push_back(spare_);
      });
    } catch (...) {
      spare_->begin_now();
      spare_->end(std::current_exception());
      return {std::move(spare_)};
    }
    std::size_t const ended = messenger_.take_ended_count();
    if (looks) rare_looks_.note_receive(t.ended);
    if (ended > std::size_t{t.ended}) this->end_finished(ended);
    if (t.ended) {
      history_.end(t);
      if (std::exception_ptr const found = fault(where)) {
        spare_->begin_now();
        spare_->end(found);
        return {std::move(spare_)};
      }
      return t.what == transfer::send ? begun_transfer{} : begun_transfer{nullptr, t.source, t.source_tag, t.got};
    }
    spare_->begin_now();
    this->count_started();
    if (t.bytes >= progress_list::large_bytes) progress_list::hurry();
    return {std::move(spare_)};
  }

  // The same for one that needs memory: for its copy of an array with gaps, or for the check of its buffers.
  begun_transfer begin_kept(transfer const& t, shared_gaps gaps, std::chrono::nanoseconds timeout,
                            std::source_location where) {
    auto call = keep(t, std::move(gaps), timeout, where);
    call->start_checked([&] { add(call); });
    return {std::move(call)};
  }

  // -- Messages whose data are in memory of a device. `call`: a receive that was started.

  // The receive, once such a message has matched it and until it ends; otherwise empty.
  std::optional<transfer> find_fetchable(pending_call const& call) {
    std::lock_guard const lock(busy_);
    transfer const& t = static_cast<started_transfer const&>(call).message;
    if (call.ended() || t.place == 0) return {};
    return t;
  }
  // Ends the receive, whose data the caller has fetched.
  void end_fetched(pending_call& call) {
    follower::at_end const runs_due;
    std::lock_guard const lock(busy_);
    if (call.ended()) return;
    auto& one = static_cast<started_transfer&>(call);
    try {
      attempt([&] { messenger_.end_fetched(one.message); });
    } catch (...) {
    }  // the transfer holds the exception
    this->move(false);
  }

  // Ends all messages of this rank, which is a fault of all ranks, because an exception keeps it from completing them.
  [[gnu::cold]] void give_up_all() noexcept {
    if (!alone()) engine_.give_up("its messages");
    this->stop();
  }

  template <class Operation>
  Operation prepare(transfer const& t, shared_gaps gaps, std::chrono::nanoseconds timeout, std::source_location where) {
    auto const begin_it = [](std::shared_ptr<pending_call> const& call) {
      static_cast<exchange*>(call->queue())->add(std::static_pointer_cast<started_transfer>(call));
    };
    return Operation(keep(t, std::move(gaps), timeout, where), +begin_it, engine_.reference(), engine_.rank());
  }

  // See message_channels.
  [[gnu::cold]] void skip(std::uint64_t count) { messenger_.skip(count); }

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
  using in_flight = messages_in_flight<Transport>;
  using in_flight::alone, in_flight::expect_no_fault, in_flight::stop_waiting;
  using in_flight::announce_wait, in_flight::announce_and_nap, in_flight::clear_awaited;
  using in_flight::attempt, in_flight::attempt_locked, in_flight::expect_partner, in_flight::fault;
  using in_flight::busy_, in_flight::engine_, in_flight::messenger_, in_flight::faults_, in_flight::history_;
  using in_flight::first_unfinished, in_flight::all_ended, in_flight::start, in_flight::poll_messages;
  using in_flight::started_;

  // Starts a send, and returns whether it has ended at once, as most do.
  bool send_at_once(transfer& t, std::source_location where) {
    std::lock_guard const lock(busy_);
    auto const now = progress_list::moving();
    attempt([&] {
      start(t, where);
      if (t.ended && !started_.empty() && rare_looks_.pays_after_send()) poll_messages(where);
      if (messenger_.failure()) faults_.raise_failure(messenger_.failure(), where);  // of a receive of this rank
    });
    if (!t.ended) return false;
    if (std::size_t const ended = messenger_.take_ended_count(); ended > 1) this->end_finished(ended);
    history_.end(t);
    clear_awaited();
    return true;
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
    auto out = std::make_shared<started_transfer>(*this, t, std::move(gaps), engine_.timeout_for(timeout), where);
    if (use) out->check(std::move(use));
    return out;
  }
  void add(std::shared_ptr<started_transfer> const& call) {
    expect_usable(call->place);
    follower::at_end const runs_due;
    std::lock_guard const lock(busy_);
    this->list_in_process();
    call->restart();
    if (call->message.ended) return call->end(nullptr);  // to or from no_rank
    bool listed = false;
    try {
      attempt([&] {
        started_.push_back(call);
        this->count_started();
        listed = true;
        start(call->message, call->place);
      });
    } catch (...) {
      if (!listed) call->end(std::current_exception());
    }  // the transfer holds the exception
    this->move(false);
    if (!call->ended() && call->message.bytes >= progress_list::large_bytes) progress_list::hurry();
  }

  static constexpr unsigned many_polls = 32;  // before this rank announces its wait
  std::atomic<unsigned> polls_ = 0;           // without progress, by any thread
  std::shared_ptr<started_transfer> spare_;   // for the next one that is started
  rare_looks<Transport> rare_looks_;
  once_per_nap probing_;  // when probes that look once examine what has been started
};

}  // namespace tutti::detail
