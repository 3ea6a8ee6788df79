// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The messages of a communicator that have not ended, and who waits for them until when.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <exception>
#include <memory>
#include <mutex>
#include <new>
#include <source_location>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "tutti/collective/communicator.hpp"
#include "tutti/collective/message_history.hpp"
#include "tutti/collective/work.hpp"
#include "tutti/core/text.hpp"
#include "tutti/execute/messenger.hpp"

namespace tutti::detail {

// A send or receive that was started.
class started_transfer final : public pending_call {
 public:
  using pending_call::begin_now, pending_call::end, pending_call::pending_call;

  transfer message;
  std::chrono::nanoseconds limit{};
  countdown time{{}};
  std::source_location place;
};

// One that was started, or, where `call` is null, has ended at once: and what it has got, if it is a receive.
struct begun_transfer {
  std::shared_ptr<started_transfer> call{};
  int source = no_rank, tag = any_tag;
  std::size_t bytes = 0;
};

// Messages go on beside the calls of their communicator, on a track of their own, and end in any order. A fault is the
// communicator's, as that of a call is: all ranks get it, and no message goes on.
template <class Transport>
class exchange final : public pending_calls {
 public:
  static exchange& of(group<Transport>& g) {
    if (!g.messages) g.messages = std::make_unique<exchange>(g);
    return static_cast<exchange&>(*g.messages);
  }

  explicit exchange(group<Transport>& g) : group_(g), messenger_(g.transport()) {
    g.note_messages(&history_);
    if constexpr (!bound_to_thread<Transport>) any_thread_ = !g.fault_outside;  // which asks a transport that is
  }
  exchange(exchange const&) = delete;
  exchange& operator=(exchange const&) = delete;
  // Memory of the program's is still being read and written. Where an exception has taken that away, nothing is.
  ~exchange() override {
    if (std::uncaught_exceptions() > 0) give_up();
    finish();
    if (listed_) progress_list::of_process().remove(*this);
    group_.note_messages(nullptr);
  }

  // Starts all, receives first, and returns when they have ended.
  void run(std::span<transfer> all, std::chrono::nanoseconds timeout, std::source_location where) {
    expect_sound(where);
    for (transfer& t : all) t.attended = true;
    bool started = false;
    auto const look = [&] {
      std::lock_guard const lock(busy_);
      progress reached = progress::stuck;
      attempt([&] {
        if (!std::exchange(started, true)) start(all, where);
        reached = move_messages(where);
      });
      if (first_of(all) != nullptr) return reached;
      for (transfer const& t : all) history_.end(t);
      return progress::done;
    };
    countdown time(timeout_of(timeout));
    auto const examine = [&] {
      attempt_locked([&] {
        for (transfer const& t : all) expect_partner(t, where);
      });
    };
    auto const shown = [&] { return first_of(all); };
    if (!wait_until_ended(look, time, shown, examine))
      attempt_locked([&] { raise_timeout(*first_of(all), timeout_of(timeout), where); });
    await_nothing();
    expect_no_fault(where);
  }

  // Of one that ends at once, as most do, no memory is taken and no clock read. make() gives the transfer, which is made where
  // it stays: a copy would wait until its parts are in the cache, behind the last message, whose line is elsewhere. That was
  // half of the time of many small messages.
  template <class Make>
  begun_transfer add(Make&& make, std::chrono::nanoseconds timeout, std::source_location where) {
    expect_sound(where);
    if (!std::exchange(listed_, true)) progress_list::of_process().add(*this);
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
      next_->end(std::current_exception());
      return {std::move(next_)};
    }
    end_those_that_ended();
    if (t.ended) {
      history_.end(t);
      return t.what == transfer::send ? begun_transfer{} : begun_transfer{nullptr, t.source, t.source_tag, t.got};
    }
    next_->limit = timeout_of(timeout);
    next_->time = countdown(next_->limit);
    next_->place = where;
    next_->begin_now();
    started_.push_back(next_);
    count_.store(started_.size(), std::memory_order_release);
    progress_list::of_process().count_started();
    return {std::move(next_)};
  }

  // -- For who waits.
  progress advance() noexcept override {
    thread_ = std::this_thread::get_id();
    std::lock_guard const lock(busy_);
    return move();
  }
  progress help() noexcept override {
    if (!any_thread_ && std::this_thread::get_id() != thread_.load()) return progress::stuck;
    std::unique_lock const lock(busy_, std::try_to_lock);
    return lock ? move() : progress::stuck;
  }
  bool wait(pending_call const* one, deadline until) override {
    thread_ = std::this_thread::get_id();
    auto const look = [&] {
      std::lock_guard const lock(busy_);
      progress const reached = move();
      return (one != nullptr ? one->ended() : started_.empty()) ? progress::done : reached;
    };
    auto const shown = [&] {
      std::lock_guard const lock(busy_);
      for (auto const& s : started_)
        if (one == nullptr || s.get() == one) return &s->message;
      return static_cast<transfer*>(nullptr);
    };
    progress_list::attendance const here;
    bool const done = wait_until_ended(look, until, shown, [] {});
    await_nothing();
    return done;
  }

 private:
  static transfer* first_of(std::span<transfer> all) {
    auto const at = std::ranges::find(all, false, &transfer::ended);
    return at == all.end() ? nullptr : &*at;
  }
  bool alone() const noexcept { return group_.ranks() == 1; }
  std::chrono::nanoseconds timeout_of(std::chrono::nanoseconds asked) const {
    return asked.count() > 0 ? asked : group_.environment.timeout;
  }
  void expect_no_fault(std::source_location where) {
    if (!alone()) group_.expect_no_fault(where);
  }
  void expect_sound(std::source_location where) {
    if constexpr (bound_to_thread<Transport>) group_.transport().expect_thread();
    expect_no_fault(where);
    thread_ = std::this_thread::get_id();
  }

  // What this rank waits for is on the board once it has waited long. `shown`: the transfer to be named there, or null.
  template <class Look, class Until, class Shown, class Examine>
  bool wait_until_ended(Look&& look, Until until, Shown&& shown, Examine&& examine) {
    return wait_until_done(look, group_.transport().waits(), until, [&](auto const& ready) {
      if (alone()) return false;  // nobody else could send or receive
      if (transfer const* const t = told_ ? nullptr : shown()) {
        group_.notices().await(to_words(*t));
        told_ = true;
      }
      group_.transport().nap(ready);
      examine();
      return true;
    });
  }
  // It waits no more. Who gave up stays on the board: others may look for the reason of theirs.
  void await_nothing() noexcept {
    if (std::exchange(told_, false)) group_.notices().await_nothing();
  }

  // -- Under the lock.

  void start(std::span<transfer> all, std::source_location where) {
    for (auto const what : {transfer::receive, transfer::send})
      for (transfer& t : all)
        if (t.what == what && !t.ended) start(t, where);
  }
  void start(transfer& t, std::source_location where) {
    history_.begin(t, where);
    if (std::exchange(introduced_, t.type) != t.type) group_.introduce(t.type, t.type_name);
    messenger_.start(t);
  }
  progress move_messages(std::source_location where) {
    progress const reached = messenger_.poll();
    if (messenger_.found()) raise_unfit(messenger_.found(), where);
    return reached;
  }
  progress move() noexcept {
    progress_list::moving const now;
    if (started_.empty()) return progress::stuck;
    progress reached = progress::stuck;
    auto const where = started_.front()->place;
    try {
      attempt([&] {
        reached = move_messages(where);
        if (reached == progress::stuck && time_to_examine()) examine_started();
      });
    } catch (...) {
    }  // the transfers have it
    end_those_that_ended();
    return reached;
  }
  void examine_started() {
    if constexpr (asks_peers<Transport>) group_.transport().heed();
    for (std::size_t i = 0; i < started_.size(); ++i) {
      started_transfer& s = *started_[i];
      expect_partner(s.message, s.place);
      if (!s.message.ended && s.time.passed()) raise_timeout(s.message, s.limit, s.place);
    }
  }
  void end_those_that_ended() noexcept {
    if (messenger_.ended_some()) end_those([](auto const& s) { return s.message.ended; }, nullptr);
  }
  template <class Which>
  void end_those(Which&& which, std::exception_ptr const& thrown) noexcept {
    if (started_.empty()) return;
    auto const now = pending_call::clock::now();
    std::erase_if(started_, [&](auto const& s) {
      if (!which(*s)) return false;
      if (s->message.ended) history_.end(s->message);
      s->end(thrown, now);
      progress_list::of_process().count_ended();
      return true;
    });
    count_.store(started_.size(), std::memory_order_release);
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
    attempt(f);
  }
  [[gnu::cold]] void give_up() noexcept {
    try {
      attempt_locked([&] {
        if (!started_.empty())
          raise(
              error_code::rank_left, group_.rank(),
              join({"rank ", group_.rank(), " gave up ", text(started_.front()->message), ", because of an exception"}),
              started_.front()->place);
      });
    } catch (...) {
    }
  }

  // Once in a nap's time, while looks find nothing; and the clock is not read each time.
  bool time_to_examine() noexcept {
    if (++looks_ % 16 != 0 || !next_look_.passed()) return false;
    next_look_ = deadline::after(nap_length);
    return true;
  }

  // -- Faults.

  // Throws where the ranks that a transfer waits for are gone, or something else has gone wrong.
  [[gnu::cold]] void expect_partner(transfer const& t, std::source_location where) {
    if (alone()) return;
    group_.expect_no_fault_anywhere(where);
    if (t.ended) return;
    bool const any = t.what == transfer::receive && t.peer == any_source && t.source == no_rank;
    int const partner = t.source != no_rank ? t.source : t.peer;
    int present = 0;
    for (int peer = 0; peer < group_.ranks(); ++peer) {
      if (peer == group_.rank() || (!any && peer != partner)) continue;
      bool const lost = group_.transport().lost(peer);  // looked at first: who leaves in order says so before it ends
      bool const left = group_.transport().left(peer);
      if (!lost && !left) ++present;
      bool const ends = lost && !left ? true : left && !any;
      if (ends) expect_ended(t, left ? error_code::rank_left : error_code::rank_lost, peer, where);
    }
    if (any && present == 0 && group_.ranks() > 1)
      expect_ended(t, error_code::rank_left, (group_.rank() + 1) % group_.ranks(), where);
  }
  // What a rank has sent before it went is taken first.
  void expect_ended(transfer const& t, error_code code, int peer, std::source_location where) {
    while (!t.ended && move_messages(where) != progress::stuck) {
    }
    if (t.ended) return;
    raise(
        code, peer,
        join({code == error_code::rank_left ? join({"rank ", peer, " closed its communicator"})
                                            : join({group_.transport().describe(peer), " ended, ", group_.doing(peer)}),
              ", while rank ", group_.rank(), " is in ", text(t)}),
        where);
  }

  [[noreturn, gnu::cold]] void raise_timeout(transfer const& t, std::chrono::nanoseconds limit,
                                             std::source_location where) {
    std::string what = join({"no end of ", text(t), ", of rank ", group_.rank(), ", within ",
                             std::chrono::duration<double>(limit).count(), " s"});
    int peer = t.source != no_rank ? t.source : t.peer;
    if (alone() || peer == group_.rank()) what += "; it waits for itself";
    else what += waiting_chain(peer);
    raise(error_code::timeout, alone() || peer == any_source ? -1 : peer, what, where);
  }
  // What the peer does, and whom it waits for itself, as far as that goes.
  [[gnu::cold]] std::string waiting_chain(int peer) {
    if constexpr (asks_peers<Transport>) group_.transport().heed();
    std::string out;
    std::vector<int> seen{group_.rank()};
    for (; peer != any_source && !std::ranges::count(seen, peer); seen.push_back(peer)) {
      out += join({"; rank ", peer, " is ", group_.doing(peer)});
      auto const message = group_.notices().awaited(peer);
      if (!message) return out;
      peer = peer_of(*message);
      if (peer == group_.rank())
        return out + "; so they wait for each other: start both ways at once, by send_recv, batch, isend or irecv";
    }
    return out;
  }
  [[noreturn, gnu::cold]] void raise_unfit(unfit_message const& m, std::source_location where) {
    std::string type = messenger_.type_name(m.from, m.type);
    if (type.empty()) type = alone() ? "another type" : group_.notices().name(m.from, m.type);
    std::string const sender = join({"rank ", m.from, ", tag ", m.tag});
    if (m.refused != 0)
      raise(error_code::system, m.from,
            join({"rank ", group_.rank(), " cannot read the memory of ", sender, ": ", std::strerror(m.refused)}),
            where);
    transfer const& r = *m.receive;
    raise(error_code::mismatch, m.from,
          join({"a message of ", m.bytes, " bytes of ", type, " from ", sender, " does not fit the ", text(r), " (",
                r.bytes, " bytes), of rank ", group_.rank()}),
          where);
  }
  [[gnu::cold]] std::string text(transfer const& t) {
    if (alone()) return t.what == transfer::send ? "send" : "recv";
    return describe_message(to_words(t), group_.notices(), group_.rank());
  }
  [[noreturn, gnu::cold]] void raise(error_code code, int peer, std::string const& what, std::source_location where) {
    if (alone())
      throw error({.code = code, .rank = 0, .what = what, .way_out = "start the other end before", .where = where});
    group_.raise({static_cast<int>(code), group_.rank(), peer, what}, where);
  }

  group<Transport>& group_;
  messenger<Transport> messenger_;
  message_history history_;
  std::atomic<std::thread::id> thread_{std::this_thread::get_id()};  // which used this communicator last
  bool any_thread_ = false;
  bool listed_ = false;
  bool told_ = false;  // the board has what this rank waits for
  std::uint32_t introduced_ = 0;
  std::mutex busy_;
  std::vector<std::shared_ptr<started_transfer>> started_;
  std::shared_ptr<started_transfer> next_;  // nobody has it yet
  unsigned looks_ = 0;
  deadline next_look_ = deadline::after(nap_length);
};

// Calls f(exchange) with that of the ranks: of a single node, its own.
template <class Transport, class F>
decltype(auto) with_exchange(communicator<Transport>& comm, std::source_location where, F&& f) {
  if constexpr (has_levels<Transport>)
    if (auto* const node = comm.group().levels->only_node()) {
      comm.group().transport().expect_thread();
      if (comm.size() > 1) comm.group().expect_no_fault(where);
      return f(exchange<typename Transport::inside>::of(node->group()));
    }
  return f(exchange<Transport>::of(comm.group()));
}

}  // namespace tutti::detail
