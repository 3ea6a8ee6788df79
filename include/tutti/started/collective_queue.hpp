// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The started collectives of a communicator. Each begins when those before it have ended.
#pragma once

#include <chrono>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

#include "tutti/call/begun_call.hpp"
#include "tutti/core/wait.hpp"
#include "tutti/started/call.hpp"
#include "tutti/started/progress.hpp"
#include "tutti/started/queue.hpp"

namespace tutti::detail {

template <class Transport>
class collective_queue;

// A collective in the queue, from its start to its end. It begins when it is at the front.
template <class Transport>
class queued_call : public pending_call {
 public:
  queued_call(pending_calls& queue, engine<Transport>& on) : pending_call(&queue, prepared), engine_(on) {}

  // -- For the queue.
  using pending_call::restart;
  // Done when the call has ended.
  progress advance() noexcept {
    progress reached = progress::done;
    attempt([&] {
      expect_open(engine_.transport());
      if (!began_) begin_here();
      reached = poll_or_give_up();
      if (reached != progress::done) return;
      if (found()) engine_.report(found(), terms().where);
      engine_.finish(terms().where);
      succeed();
      end(nullptr);
    });
    return ended() ? progress::done : reached;
  }
  // Whether it copies so much that this takes as long as another thread needs to begin with it. The blocks of a _v form, whose
  // sizes the terms do not contain, usually do.
  bool is_large() const noexcept {
    request const& asked = terms().asked;
    std::size_t const blocks =
        collects(asked.what) || deals(asked.what) ? static_cast<std::size_t>(engine_.transport().ranks()) : 1;
    return asked.ragged || asked.bytes() * blocks >= progress_list::large_bytes;
  }
  // Ends the call with an error if there is no point in waiting longer.
  [[gnu::cold]] void examine() noexcept {
    attempt([&] {
      if constexpr (queries_peers<Transport>) engine_.transport().poll_notices();
      engine_.examine(terms().where);
      if (time_.passed()) engine_.report_timeout(timeout_, terms().where);
    });
  }

 protected:
  engine<Transport>& engine_;

 private:
  friend class collective_queue<Transport>;

  virtual call_terms const& terms() const noexcept = 0;
  virtual void begin(begun_call<Transport> const& begun) = 0;
  virtual progress poll() = 0;  // throws what the operation throws
  // Called once the call has ended without an error.
  virtual void succeed() {}
  virtual protocol_violation const& found() const noexcept = 0;

  void begin_here() {
    begun_call<Transport> begun(engine_, terms());
    number(engine_.sequence());
    begin(begun);
    timeout_ = begun.timeout();
    time_ = countdown(timeout_);
    begun.hand_over();
    began_ = true;
  }

  progress poll_or_give_up() try { return poll(); } catch (...) {
    engine_.give_up();
    throw;
  }

  template <class F>
  void attempt(F&& f) noexcept {
    try {
      f();
    } catch (...) {
      static_cast<collective_queue<Transport>*>(queue())->stop_others_if_faulty();
      end(std::current_exception());
    }
    if (ended()) began_ = false;
  }

  std::shared_ptr<queued_call> next_;
  bool began_ = false;
  std::chrono::nanoseconds timeout_{};
  countdown time_{{}};
};

template <class Transport>
class collective_queue final : public call_queue<Transport> {
 public:
  explicit collective_queue(engine<Transport>& on) : call_queue<Transport>(on) {}
  ~collective_queue() override { this->close(); }

  static collective_queue& of(engine<Transport>& on) {
    return static_cast<collective_queue&>(on.started.get_or([&] { return std::make_unique<collective_queue>(on); }));
  }
  static void start(std::shared_ptr<pending_call> const& call) {
    static_cast<collective_queue&>(*call->queue()).add(std::static_pointer_cast<queued_call<Transport>>(call));
  }
  void add(std::shared_ptr<queued_call<Transport>> call) {
    engine_.process.expect_this(call->terms().where);
    this->use_here();
    {
      std::lock_guard const lock(busy_);
      this->list_in_process();
      auto* const added = call.get();
      added->restart();
      (first_ ? last_->next_ : first_) = std::move(call);
      last_ = added;
      this->count_started();
      if (leaves_to_thread()) progress_list::hurry();
      else move(false);
    }
    follower::run_due();
  }

  bool wait(pending_call const* one, deadline until) override {
    return this->wait_for(one, until, [&](auto const& ready) {
      // `examine` asks a transport for news that does not deliver it by itself, while nobody else drives these calls.
      if constexpr (queries_peers<Transport>) std::this_thread::sleep_for(idler::rest);
      else engine_.transport().nap(ready);
      return true;
    });
  }

 private:
  friend class queued_call<Transport>;
  using call_queue<Transport>::busy_;
  using call_queue<Transport>::engine_;

  // Whether the first call copies so much that a progress_thread should do it while the program computes.
  bool leaves_to_thread() const noexcept {
    return progress_list::has_thread() && !progress_list::has_waiter() && engine_.any_thread && first_->is_large();
  }
  progress move(bool) noexcept override {
    auto const now = progress_list::moving();
    bool moved = false;
    while (first_) {
      progress reached = first_->advance();
      if (reached == progress::stuck && this->time_to_examine()) {
        first_->examine();
        if (first_->ended()) reached = progress::done;
      }
      moved |= reached != progress::stuck;
      if (reached != progress::done) break;
      drop_first();
    }
    return moved ? progress::moved : progress::stuck;
  }
  void drop_first() noexcept {
    first_ = std::exchange(first_->next_, nullptr);
    this->count_ended();
  }
  void give_up() noexcept override {
    std::lock_guard const lock(busy_);
    auto const now = progress_list::moving();
    if (first_) engine_.give_up();
    end_all();
  }
  void end_all() noexcept override {
    for (; first_; drop_first()) first_->examine();
  }

  std::shared_ptr<queued_call<Transport>> first_;  // each links to the next
  queued_call<Transport>* last_ = nullptr;
};

}  // namespace tutti::detail
