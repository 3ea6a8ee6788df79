// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The messages of a communicator that are in flight: their progress, their ends and their faults.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <source_location>
#include <span>
#include <utility>

#include "tutti/call/communicator.hpp"
#include "tutti/core/fifo.hpp"
#include "tutti/core/wait.hpp"
#include "tutti/fault/call_record.hpp"
#include "tutti/fault/message_history.hpp"
#include "tutti/message/faults.hpp"
#include "tutti/message/losses.hpp"
#include "tutti/message/messenger.hpp"
#include "tutti/message/started_transfer.hpp"
#include "tutti/started/queue.hpp"
#include "tutti/started/tick_clock.hpp"
#include "tutti/transport/nap.hpp"

namespace tutti::detail {

// A fault is raised on the communicator, like that of a call: all ranks get it, and every message in flight ends with it.
template <class Transport>
class messages_in_flight : public call_queue<Transport> {
 protected:
  using call_queue<Transport>::busy_;
  using call_queue<Transport>::engine_;

  explicit messages_in_flight(engine<Transport>& g)
      : call_queue<Transport>(g), messenger_(g.transport()), faults_(g, messenger_) {
    g.note_messages(&history_);
  }
  ~messages_in_flight() override { engine_.note_messages(nullptr); }

  static transfer* first_unfinished(std::span<transfer> all) {
    for (transfer& t : all)
      if (!t.ended) return &t;
    return nullptr;
  }
  bool alone() const noexcept { return engine_.ranks() == 1; }
  // Throws a fault that the communicator has. The caller may then release the memory of all transfers, so they end first.
  void expect_no_fault(std::source_location where) {
    if (!is_usable()) [[unlikely]]
      report_unusable(where);
  }
  bool is_usable() const noexcept { return alone() ? engine_.process.is_this() : engine_.is_usable(); }
  [[gnu::cold, gnu::noinline]] void report_unusable(std::source_location where) {
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

  // A rank that has waited long announces on the notice board which transfer it waits for, and writes a flight record where one
  // was requested. awaited(), called under the lock, returns that transfer or null.
  template <class Awaited>
  void announce_wait(Awaited&& awaited) {
    if (!announced_) {
      std::lock_guard const lock(busy_);
      if (transfer const* const t = awaited()) {
        closing_round_ = 0;
        announce(*t);
        announced_ = true;
      }
    }
    engine_.record_where_asked();
  }
  template <class Ready, class Awaited>
  void announce_and_nap(Ready const& ready, Awaited&& awaited) {
    announce_wait(awaited);
    nap_rethrowing(engine_.transport(), ready);
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
    auto const now = progress_list::moving();
    if (!started_.empty()) where = started_.front()->place;
    must_stop_waiting_.store(false, std::memory_order_relaxed);
    try {
      attempt([&] {
        messenger_.stop_waiting();
        if (messenger_.failure()) faults_.raise_failure(messenger_.failure(), where);
      });
    } catch (...) {
    }  // the transfers hold the exception
    end_finished(messenger_.take_ended_count());
  }

  // -- Under the lock.

  bool all_ended(std::span<transfer> all) {
    if (first_unfinished(all) != nullptr) return false;
    for (transfer const& t : all) history_.end(t);
    return true;
  }
  void start(std::span<transfer> all, std::source_location where) {
    for (bool const sends : {false, true})
      for (transfer& t : all)
        if ((t.what == transfer::send) == sends && !t.ended) start(t, where);
  }
  // As messenger::start.
  bool start(transfer& t, std::source_location where, bool looks = true) {
    engine_.forget_refusal();
    history_.begin(t, sites_.word_of(where, [&] { return engine_.shared_site(where); }));
    if (t.what != transfer::probe && std::exchange(last_named_type_, t.type) != t.type)
      engine_.introduce(t.type, t.type_name);
    return messenger_.start(t, looks);
  }
  // `waits`: this thread calls stop_waiting() in the end.
  progress poll_messages(std::source_location where, bool waits = false) {
    progress const reached = messenger_.poll(waits);
    if (waits && messenger_.must_stop_waiting()) must_stop_waiting_.store(true, std::memory_order_relaxed);
    if (messenger_.failure()) faults_.raise_failure(messenger_.failure(), where);
    return reached;
  }
  progress move(bool waits) noexcept override {
    auto const now = progress_list::moving();
    if (started_.empty()) return progress::stuck;
    progress reached = progress::stuck;
    auto const where = started_.front()->place;
    try {
      attempt([&] {
        expect_open(engine_.transport());
        reached = poll_messages(where, waits);
        if (reached == progress::stuck && this->time_to_examine()) examine_started();
      });
    } catch (...) {
    }  // the transfers hold the exception
    end_finished(messenger_.take_ended_count());
    return reached;
  }
  void poll_notices() {
    if constexpr (queries_peers<Transport>) engine_.transport().poll_notices();
  }
  void examine_started() {
    poll_notices();
    if (closes_ && !started_.empty() && (announced_ || alone())) advance_round(*started_.front());
    for (auto const& one : started_) {
      started_transfer& s = *one;
      expect_partner(s.message, s.place);
      if (!s.message.ended && s.time.passed()) faults_.raise_timeout(s.message, s.limit, s.place);
    }
  }
  // `ended`: how many transfers have ended since the last call, started ones among them.
  void end_finished(std::size_t ended) noexcept {
    if (ended == 0) return;
    if (!started_.empty())
      end_started(ended, [](auto const& s) { return s.message.ended; }, fault(started_.front()->place));
    clear_awaited();
  }
  // The fault of the communicator, or null. After one, a sender may have changed memory that this rank has just fetched.
  std::exception_ptr fault(std::source_location where) noexcept {
    if (is_usable()) [[likely]]
      return nullptr;
    return find_fault(where);
  }
  [[gnu::cold, gnu::noinline]] std::exception_ptr find_fault(std::source_location where) noexcept {
    try {
      if (!alone()) engine_.expect_no_fault(where);
    } catch (...) {
      return std::current_exception();
    }
    return nullptr;
  }
  template <class Which>
  void end_started(std::size_t most, Which&& which, std::exception_ptr const& thrown) noexcept {
    if (started_.empty()) return;
    auto const now = tick_clock::now();
    std::size_t ended = 0;
    started_.erase_if(most, [&](auto const& s) {
      if (!which(*s)) return false;
      if (s->message.ended) history_.end(s->message);
      s->end(thrown, now);
      ++ended;
      return true;
    });
    if (ended > 0) this->count_ended(ended);
  }

  // If f throws, drops all transfers and ends those that were started with its exception. An exception that is not a fault, such as
  // bad_alloc, becomes one, because peers would wait for what this rank has dropped.
  template <class F>
  void attempt(F&& f) {
    try {
      f();
    } catch (...) {
      if (!alone() && engine_.process.is_this() && !is_closed(engine_.transport())) engine_.give_up("its messages");
      drop_all(std::current_exception());
      throw;
    }
  }
  [[gnu::cold]] void drop_all(std::exception_ptr const& thrown) noexcept {
    if (closes_ && !alone()) print_unfinished(engine_, started_);
    messenger_.drop_all();
    this->stop_others_if_faulty();
    end_started(started_.size(), [](auto const&) { return true; }, thrown);
  }
  template <class F>
  void attempt_locked(F&& f) {
    std::lock_guard const lock(busy_);
    auto const now = progress_list::moving();
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
  [[gnu::cold]] void announce(transfer const& t) {
    auto const record = history_.find(t.number);
    engine_.notices().set_awaited(at_site(to_words(t, closing_round_), record ? (*record)[site_word] : 0));
  }
  // Whether only receives that no message has matched are in flight, and sends of which no receive has asked for the data.
  [[gnu::cold]] bool all_unmatched() {
    return std::ranges::all_of(started_, [](auto const& s) {
      transfer const& t = s->message;
      return t.ended || (t.what == transfer::receive ? t.source == no_rank : t.partner == 0 && t.last == 0);
    });
  }
  // A rank that closes, with nothing but such messages, ends a round when nothing has moved for half a second since all ranks began it. What
  // a rank sent before its first round has arrived when a peer ends that one. So after the second round nothing can match any more.
  [[gnu::cold]] void advance_round(started_transfer const& first) {
    if (!all_unmatched()) {
      if (closing_round_ > 0) begin_round(0, first);
      return;
    }
    if (closing_round_ == 0) return begin_round(1, first);
    if (!faults_.all_close(closing_round_)) return round_end_.reset();
    if (!round_end_) round_end_ = deadline::after(std::chrono::milliseconds(500));
    if (!round_end_->passed()) return;
    if (closing_round_ == 2) faults_.raise_unmatched(first.message, first.place);
    begin_round(2, first);
  }
  [[gnu::cold]] void begin_round(unsigned round, started_transfer const& first) {
    closing_round_ = round;
    round_end_.reset();
    if (!alone()) announce(first.message);
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
  shared_sites sites_;
  std::atomic<bool> announced_ = false;          // the notice board names what this rank waits for
  std::atomic<bool> must_stop_waiting_ = false;  // peers rely on this rank to keep polling
  std::uint32_t last_named_type_ = 0;
  bool closes_ = false;
  unsigned closing_round_ = 0;           // see advance_round
  std::optional<deadline> round_end_{};  // if no peer moves before
  fifo<std::shared_ptr<started_transfer>> started_;
};

}  // namespace tutti::detail
