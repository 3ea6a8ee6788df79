// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The messages of a communicator that have not ended, and who waits for them until when.
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
#include "tutti/started/call_queue.hpp"

namespace tutti::detail {

// Messages go on beside the calls of their communicator, on tracks of their own, and end in any order. A fault is the
// communicator's, as that of a call is: all ranks get it, and no message goes on.
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

  // Starts all, receives first, and returns when they have ended.
  void run(std::span<transfer> all, std::chrono::nanoseconds timeout, std::source_location where) {
    follower::at_end const runs_due;
    expect_sound(where);
    for (transfer& t : all) t.awaited = true;
    bool started = false;
    auto const look = [&] {
      std::lock_guard const lock(busy_);
      progress_list::moving const now;
      progress reached = progress::stuck;
      attempt([&] {
        if (!std::exchange(started, true)) start(all, where);
        reached = move_messages(where, true);
      });
      return have_ended(all) ? progress::done : reached;
    };
    countdown time(timeout_of(timeout));
    auto const nap = [&](auto const& ready) {
      if (alone()) return false;  // nobody else could send or receive
      tell_and_nap(ready, [&] { return first_of(all); });
      attempt_locked([&] {
        for (transfer const& t : all) expect_partner(t, where);
      });
      return true;
    };
    if (!wait_until_done(look, engine_.transport().waits(), time, nap))
      attempt_locked([&] {
        move_messages(where);  // and whoever helped others since the last look may have moved them on
        if (!have_ended(all)) faults_.raise_timeout(*first_of(all), timeout_of(timeout), where);
      });
    clear_awaited();
    leave(where);
    expect_no_fault(where);
  }

  // Of one that ends at once, as most do, no memory is taken and no clock read. make() gives the transfer, which is made where
  // it stays: a copy would wait until its parts are in the cache, behind the last message, whose line is elsewhere. That was
  // half of the time of many small messages.
  template <class Make>
  begun_transfer begin(Make&& make, std::chrono::nanoseconds timeout, std::source_location where) {
    if (engine_.environment.checks_buffers) {
      auto call = prepare_checked(make(), timeout, where);
      call->start_checked([&] { add(call); });
      return {std::move(call)};
    }
    expect_sound(where);
    follower::at_end const runs_due;
    std::lock_guard const lock(busy_);
    progress_list::moving const now;
    if (!next_) next_ = std::make_shared<started_transfer>(*this);
    transfer& t = *::new (&next_->message) transfer(make());
    try {
      attempt([&] {
        start(t, where);
        if (!t.ended) move_messages(where);
      });
    } catch (...) {
      next_->begin_now();
      next_->end(std::current_exception());
      return {std::move(next_)};
    }
    if (messenger_.ended_some() > std::size_t{t.ended}) end_those_that_ended();
    if (t.ended) {
      history_.end(t);
      return t.what == transfer::send ? begun_transfer{} : begun_transfer{nullptr, t.source, t.source_tag, t.got};
    }
    next_->limit = timeout_of(timeout);
    next_->time = countdown(next_->limit);
    next_->place = where;
    next_->begin_now();
    started_.push_back(next_);
    this->count_started();
    return {std::move(next_)};
  }

  template <class Operation>
  Operation prepare(transfer const& t, std::chrono::nanoseconds timeout, std::source_location where) {
    return Operation(prepare_checked(t, timeout, where), [](std::shared_ptr<pending_call> const& call) {
      static_cast<exchange*>(call->queue())->add(std::static_pointer_cast<started_transfer>(call));
    });
  }

  // Who tests again and again waits as well.
  progress advance() noexcept override {
    progress const reached = call_queue<Transport>::advance();
    if (reached != progress::stuck) polls_.store(0, std::memory_order_relaxed);
    else if (!alone() && polls_.fetch_add(1, std::memory_order_relaxed) % many_polls == many_polls - 1)
      tell([&] { return started_.empty() ? nullptr : &started_.front()->message; });
    return reached;
  }
  bool wait(pending_call const* one, deadline until) override {
    follower::at_end const runs_due;  // also of what ends in leave()
    auto const shown = [&]() -> transfer const* {
      for (auto const& s : started_)
        if (s.get() == one) return &s->message;
      return started_.empty() ? nullptr : &started_.front()->message;  // it waits for all, or for several
    };
    bool const done = this->wait_for(one, until, [&](auto const& ready) {
      if (alone()) std::this_thread::sleep_for(idler::rest);
      else tell_and_nap(ready, shown);
      return true;
    });
    clear_awaited();
    leave(std::source_location::current());
    return done;
  }

 private:
  using call_queue<Transport>::busy_;
  using call_queue<Transport>::engine_;

  static transfer* first_of(std::span<transfer> all) {
    auto const at = std::ranges::find(all, false, &transfer::ended);
    return at == all.end() ? nullptr : &*at;
  }
  bool alone() const noexcept { return engine_.ranks() == 1; }
  std::chrono::nanoseconds timeout_of(std::chrono::nanoseconds asked) const {
    return asked.count() > 0 ? asked : engine_.environment.timeout;
  }
  void expect_no_fault(std::source_location where) {
    if (!alone()) engine_.expect_no_fault(where);
  }
  void expect_sound(std::source_location where) {
    if constexpr (bound_to_thread<Transport>) engine_.transport().expect_thread();
    expect_no_fault(where);
    this->use_here();
  }

  std::shared_ptr<started_transfer> prepare_checked(transfer const& t, std::chrono::nanoseconds timeout,
                                                    std::source_location where) {
    auto out = std::make_shared<started_transfer>(*this, t, timeout_of(timeout), where);
    if (engine_.environment.checks_buffers && t.peer != no_rank) {
      bool const sends = t.what == transfer::send;
      auto use = std::make_unique<buffers_in_use>(sends ? "send" : "recv", engine_.rank(), where);
      if (sends) use->reads(t.from, t.bytes);
      else use->writes(t.to, t.bytes);
      out->check(std::move(use));
    }
    return out;
  }
  void add(std::shared_ptr<started_transfer> const& call) {
    expect_sound(call->place);
    follower::at_end const runs_due;
    std::lock_guard const lock(busy_);
    call->restart();
    if (call->message.ended) return call->end(nullptr);  // of no_rank
    started_.push_back(call);
    this->count_started();
    try {
      attempt([&] { start(call->message, call->place); });
    } catch (...) {
    }  // the transfer has it
    move(false);
  }

  // What this rank waits for is on the board once it has waited long, and a record tells it. shown(), under the lock: the
  // transfer to be named there, or null.
  template <class Shown>
  void tell(Shown&& shown) {
    if (!told_) {
      std::lock_guard const lock(busy_);
      if (transfer const* const t = shown()) {
        auto const record = history_.find(t->number);
        std::uint64_t const place = record ? engine_.shared_place(message_history::place(*record)) : 0;
        engine_.notices().set_awaited(at_place(to_words(*t), place));
        told_ = true;
      }
    }
    engine_.record_where_asked();
  }
  template <class Ready, class Shown>
  void tell_and_nap(Ready const& ready, Shown&& shown) {
    tell(shown);
    engine_.transport().nap(ready);
  }
  // It waits no more. Who gave up stays on the board: others may look for the reason of theirs.
  void clear_awaited() noexcept {
    if (told_ && told_.exchange(false))
      engine_.notices().clear_awaited();  // an exchange waits until what was sent has gone
  }

  // This thread waits no more. Another may, and says so again at its next look.
  void leave(std::source_location where) noexcept {
    if (!attends_.load(std::memory_order_relaxed)) return;
    std::lock_guard const lock(busy_);
    progress_list::moving const now;
    if (!started_.empty()) where = started_.front()->place;
    attends_.store(false, std::memory_order_relaxed);
    try {
      attempt([&] {
        messenger_.leave();
        if (messenger_.found()) faults_.raise_unfit(messenger_.found(), where);
      });
    } catch (...) {
    }  // the transfers have it
    if (messenger_.ended_some() > 0) end_those_that_ended();
  }

  // -- Under the lock.

  bool have_ended(std::span<transfer> all) {
    if (first_of(all) != nullptr) return false;
    for (transfer const& t : all) history_.end(t);
    return true;
  }
  void start(std::span<transfer> all, std::source_location where) {
    for (auto const what : {transfer::receive, transfer::send})
      for (transfer& t : all)
        if (t.what == what && !t.ended) start(t, where);
  }
  void start(transfer& t, std::source_location where) {
    history_.begin(t, where);
    if (std::exchange(introduced_, t.type) != t.type) engine_.introduce(t.type, t.type_name);
    messenger_.start(t);
  }
  // `waits`: this thread calls leave() in the end.
  progress move_messages(std::source_location where, bool waits = false) {
    progress const reached = messenger_.poll(waits);
    if (waits && messenger_.attends()) attends_.store(true, std::memory_order_relaxed);
    if (messenger_.found()) faults_.raise_unfit(messenger_.found(), where);
    return reached;
  }
  progress move(bool waits) noexcept override {
    progress_list::moving const now;
    if (started_.empty()) return progress::stuck;
    progress reached = progress::stuck;
    auto const where = started_.front()->place;
    try {
      attempt([&] {
        reached = move_messages(where, waits);
        if (reached == progress::stuck && this->time_to_examine()) examine_started();
      });
    } catch (...) {
    }  // the transfers have it
    if (messenger_.ended_some() > 0) end_those_that_ended();
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
  void end_those_that_ended() noexcept {
    end_those([](auto const& s) { return s.message.ended; }, nullptr);
    clear_awaited();
  }
  template <class Which>
  void end_those(Which&& which, std::exception_ptr const& thrown) noexcept {
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

  // Where f throws, nothing goes on, and all that was started ends with that.
  template <class F>
  void attempt(F&& f) {
    try {
      f();
    } catch (...) {
      messenger_.forget();
      end_those([](auto const&) { return true; }, std::current_exception());
      throw;
    }
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

  // -- Faults.

  // Throws where the ranks that a transfer waits for are gone, or something else has gone wrong.
  [[gnu::cold]] void expect_partner(transfer const& t, std::source_location where) {
    if (alone()) return;
    engine_.expect_no_fault_anywhere(where);
    if (t.ended) return;
    if (auto const gone = faults_.find_gone(t)) expect_ended(t, gone->code, gone->peer, where);
  }
  // What a rank has sent before it went is taken first.
  void expect_ended(transfer const& t, error_code code, int peer, std::source_location where) {
    while (!t.ended && move_messages(where) != progress::stuck) {
    }
    if (t.ended) return;
    faults_.raise_gone(t, code, peer, where);
  }

  messenger<Transport> messenger_;
  message_faults<Transport> faults_;
  message_history history_;
  std::atomic<bool> told_ = false;            // the board has what this rank waits for
  static constexpr unsigned many_polls = 32;  // that yield, where cores are few
  std::atomic<unsigned> polls_ = 0;           // since anything moved; several threads may test
  std::atomic<bool> attends_ = false;         // peers count on this rank while it waits
  std::uint32_t introduced_ = 0;
  std::vector<std::shared_ptr<started_transfer>> started_;
  std::shared_ptr<started_transfer> next_;  // nobody has it yet
};

// Calls f(exchange) with that of the ranks: of a single node, its own.
template <class Transport, class F>
decltype(auto) with_exchange(communicator<Transport>& comm, std::source_location where, F&& f) {
  if constexpr (has_levels<Transport>)
    if (auto* const node = comm.engine().levels->only_node()) {
      comm.engine().transport().expect_thread();
      if (comm.size() > 1) comm.engine().expect_no_fault(where);
      return f(exchange<typename Transport::inside>::of(node->engine()));
    }
  return f(exchange<Transport>::of(comm.engine()));
}

}  // namespace tutti::detail
