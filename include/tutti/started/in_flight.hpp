// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The calls of a communicator that were started: each begins when those before it have ended.
#pragma once

#include <chrono>
#include <exception>
#include <memory>
#include <mutex>
#include <source_location>
#include <thread>
#include <tuple>
#include <type_traits>
#include <utility>

#include "tutti/call/running_call.hpp"
#include "tutti/core/reused_room.hpp"
#include "tutti/started/call_queue.hpp"

namespace tutti::detail {

template <class Transport>
class in_flight;

// A call that was prepared, and in the queue from its start to its end. When its turn has come, the collective takes it for
// the communicator. A call that is started again finds its memory where it was.
template <class Transport>
class queued_call : public pending_call {
 public:
  queued_call(in_flight<Transport>& queue, engine<Transport>& g)
      : pending_call(&queue, prepared), in_flight_(queue), engine_(g) {}

  // -- For the collective.
  int rank() const noexcept { return engine_.rank(); }
  int size() const noexcept { return engine_.ranks(); }
  tutti::detail::engine<Transport>& engine() noexcept { return engine_; }

  // Keeps what make() makes, with poll() and found(): what there is to do until the call ends.
  template <class Make>
  void keep(std::chrono::nanoseconds timeout, std::source_location where, Make&& make) {
    struct kept final : task {
      explicit kept(Make& m) : work(m()) {}
      progress poll() noexcept override { return work.poll(); }
      protocol_violation const& found() const noexcept override { return work.found(); }
      std::invoke_result_t<Make&> work;
    };
    task_.template emplace<kept>(make);
    timeout_ = timeout;
    time_ = countdown(timeout);
    where_ = where;
  }

  // -- For the queue.
  in_flight<Transport>& queue() const noexcept { return in_flight_; }
  using pending_call::number;
  using pending_call::restart;
  // Done where it has ended.
  progress advance() noexcept {
    progress reached = progress::done;
    attempt([&] {
      if (!task_) begin();
      reached = task_->poll();
      if (reached != progress::done) return;
      if (task_->found()) engine_.report(task_->found(), where_);
      engine_.finish(where_);
      end(nullptr);
    });
    return ended() ? progress::done : reached;
  }
  // Ends it where waiting longer makes no sense.
  [[gnu::cold]] void examine() noexcept {
    attempt([&] {
      if constexpr (queries_peers<Transport>) engine_.transport().poll_notices();
      engine_.examine(where_);
      if (time_.passed()) engine_.report_timeout(timeout_, where_);
    });
  }

 private:
  friend class in_flight<Transport>;

  struct task {
    virtual ~task() = default;
    virtual progress poll() noexcept = 0;
    virtual protocol_violation const& found() const noexcept = 0;
  };

  virtual void begin() = 0;

  template <class F>
  void attempt(F&& f) noexcept {
    try {
      f();
    } catch (...) {
      end(std::current_exception());
    }
    if (ended()) task_.reset();
  }

  in_flight<Transport>& in_flight_;
  tutti::detail::engine<Transport>& engine_;
  std::shared_ptr<queued_call> next_;
  reused_room<task> task_;
  std::chrono::nanoseconds timeout_{};
  countdown time_{{}};
  std::source_location where_;
};

// Where the collective is f(call, kept...), and `numbers` are the counts and offsets that it refers to.
template <class Transport, class F, class... Kept>
class held_call final : public queued_call<Transport> {
 public:
  held_call(in_flight<Transport>& queue, engine<Transport>& g, lists_of_sizes numbers, F const& f, Kept const&... kept)
      : queued_call<Transport>(queue, g), numbers_(std::move(numbers)), f_(f), kept_(kept...) {}

 private:
  void begin() override {
    std::apply([&](Kept const&... kept) { f_(static_cast<queued_call<Transport>&>(*this), kept...); }, kept_);
  }

  lists_of_sizes numbers_;
  F f_;
  std::tuple<Kept...> kept_;
};

// A queued call that begins.
template <class Transport>
class beginning_call : public opened_call<Transport> {
 public:
  static constexpr bool blocks = false;

  template <class... Arguments>
  explicit beginning_call(queued_call<Transport>& queued, Arguments const&... arguments)
      : opened_call<Transport>(queued.engine(), arguments...), queued_(queued) {
    queued.number(queued.engine().sequence());
  }

  template <class Make>
  void run(Make&& make) {
    queued_.keep(this->timeout(), this->where(), make);
    this->settled_ = true;
  }
  template <class Memory, class Make>
  void run(Memory& memory, Make&& make) {
    // The execution refers to its memory, so both stay together.
    struct both {
      both(Memory const& m, Make& f) : memory(m), work(f(memory)) {}
      progress poll() noexcept { return work.poll(); }
      protocol_violation const& found() const noexcept { return work.found(); }
      Memory memory;
      std::invoke_result_t<Make&, Memory&> work;
    };
    run([&] { return both(memory, make); });
  }

 private:
  queued_call<Transport>& queued_;
};

template <class Transport>
class in_flight final : public call_queue<Transport> {
 public:
  explicit in_flight(engine<Transport>& g) : call_queue<Transport>(g) {}
  ~in_flight() override { this->close(); }

  static in_flight& of(engine<Transport>& g) {
    return static_cast<in_flight&>(g.started.get_or([&] { return std::make_unique<in_flight>(g); }));
  }
  static void start(std::shared_ptr<queued_call<Transport>> const& call) { call->queue().add(call); }
  void add(std::shared_ptr<queued_call<Transport>> call) {
    this->use_here();
    {
      std::lock_guard const lock(busy_);
      auto* const added = call.get();
      added->restart();
      (first_ ? last_->next_ : first_) = std::move(call);
      last_ = added;
      this->count_started();
      move(false);
    }
    follower::run_due();
  }

  bool wait(pending_call const* one, deadline until) override {
    return this->wait_for(one, until, [&](auto const& ready) {
      // A transport that has to be asked for news is, by `examine`, while nobody else moves these calls.
      if constexpr (queries_peers<Transport>) std::this_thread::sleep_for(idler::rest);
      else engine_.transport().nap(ready);
      return true;
    });
  }

 private:
  using call_queue<Transport>::busy_;
  using call_queue<Transport>::engine_;

  progress move(bool) noexcept override {
    progress_list::moving const now;
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
    progress_list::moving const now;
    if (first_) engine_.give_up();
    for (; first_; drop_first()) first_->examine();
  }

  std::shared_ptr<queued_call<Transport>> first_;  // each has the next
  queued_call<Transport>* last_ = nullptr;
};

}  // namespace tutti::detail
