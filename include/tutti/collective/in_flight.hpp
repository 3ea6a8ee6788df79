// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The calls of a communicator that were started: each begins when those before it have ended.
#pragma once

#include <atomic>
#include <chrono>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <source_location>
#include <string_view>
#include <thread>
#include <tuple>
#include <type_traits>
#include <utility>

#include "tutti/collective/running_call.hpp"
#include "tutti/collective/work.hpp"

namespace tutti::detail {

// A call in the queue. When its turn has come, the collective takes it for the communicator.
template <class Transport>
class queued_call : public pending_call {
 public:
  queued_call(pending_calls& queue, group<Transport>& g) : pending_call(queue), group_(g) {}

  // -- For the collective.
  int rank() const noexcept { return group_.rank(); }
  int size() const noexcept { return group_.ranks(); }
  tutti::group<Transport>& group() noexcept { return group_; }

  // Keeps what make() makes, with poll() and found(): what there is to do until the call ends.
  template <class Make>
  void keep(std::chrono::nanoseconds timeout, std::source_location where, Make&& make) {
    struct kept final : task {
      explicit kept(Make& m) : work(m()) {}
      progress poll() noexcept override { return work.poll(); }
      surprise const& found() const noexcept override { return work.found(); }
      std::invoke_result_t<Make&> work;
    };
    task_ = std::make_unique<kept>(make);
    timeout_ = timeout;
    time_ = countdown(timeout);
    where_ = where;
  }

  // -- For the queue.
  // Done where it has ended.
  progress advance() noexcept {
    progress reached = progress::done;
    attempt([&] {
      if (!task_) begin();
      reached = task_->poll();
      if (reached != progress::done) return;
      if (task_->found()) group_.report(task_->found(), where_);
      group_.finish(where_);
      end(nullptr);
    });
    if (ended()) task_.reset();
    return ended() ? progress::done : reached;
  }
  // Ends it where waiting longer makes no sense.
  [[gnu::cold]] void examine() noexcept {
    attempt([&] {
      if constexpr (asks_peers<Transport>) group_.transport().heed();
      group_.examine(where_);
      if (time_.passed()) group_.report_timeout(timeout_, where_);
    });
  }

 private:
  struct task {
    virtual ~task() = default;
    virtual progress poll() noexcept = 0;
    virtual surprise const& found() const noexcept = 0;
  };

  virtual void begin() = 0;

  template <class F>
  void attempt(F&& f) noexcept {
    try {
      f();
    } catch (...) {
      end(std::current_exception());
    }
  }

  tutti::group<Transport>& group_;
  std::unique_ptr<task> task_;
  std::chrono::nanoseconds timeout_{};
  countdown time_{{}};
  std::source_location where_;
};

// Where the collective is f(call, kept...), and `numbers` are the counts and offsets that it refers to.
template <class Transport, class F, class... Kept>
class held_call final : public queued_call<Transport> {
 public:
  held_call(pending_calls& queue, group<Transport>& g, lists_of_sizes numbers, F const& f, Kept const&... kept)
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
      : opened_call<Transport>(queued.group(), arguments...), queued_(queued) {}

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
      surprise const& found() const noexcept { return work.found(); }
      Memory memory;
      std::invoke_result_t<Make&, Memory&> work;
    };
    run([&] { return both(memory, make); });
  }

 private:
  queued_call<Transport>& queued_;
};

template <class Transport>
class in_flight final : public pending_calls {
 public:
  explicit in_flight(group<Transport>& g) : group_(g) {
    if constexpr (bound_to_thread<Transport>) any_thread_ = g.transport().threads_at_once();
    else any_thread_ = !g.fault_outside;  // which asks a transport that may be bound
    progress_list::of_process().add(*this);
  }
  in_flight(in_flight const&) = delete;
  in_flight& operator=(in_flight const&) = delete;
  // Memory of the program's is still being read and written. Where an exception has taken that away, nothing is.
  ~in_flight() override {
    if (std::uncaught_exceptions() > 0) give_up();
    finish();
    progress_list::of_process().remove(*this);
  }

  void add(std::shared_ptr<queued_call<Transport>> call) {
    thread_ = std::this_thread::get_id();
    std::lock_guard const lock(busy_);
    calls_.push_back(std::move(call));
    count_.store(calls_.size(), std::memory_order_release);
    progress_list::of_process().count_started();
    move();
  }

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
      return (one != nullptr ? one->ended() : calls_.empty()) ? progress::done : reached;
    };
    auto& transport = group_.transport();
    progress_list::attendance const here;
    return wait_until_done(look, transport.waits(), until, [&](auto const& ready) {
      // A transport that has to be asked for news is, by `examine`, while nobody else moves these calls.
      if constexpr (asks_peers<Transport>) std::this_thread::sleep_for(idler::rest);
      else transport.nap(ready);
      return true;
    });
  }

 private:
  progress move() noexcept {
    progress_list::moving const now;
    bool moved = false;
    while (!calls_.empty()) {
      progress reached = calls_.front()->advance();
      if (reached == progress::stuck && time_to_examine()) {
        calls_.front()->examine();
        if (calls_.front()->ended()) reached = progress::done;
      }
      moved |= reached != progress::stuck;
      if (reached != progress::done) break;
      drop_first();
    }
    return moved ? progress::moved : progress::stuck;
  }
  void drop_first() noexcept {
    calls_.pop_front();
    count_.store(calls_.size(), std::memory_order_release);
    progress_list::of_process().count_ended();
  }

  // Ends all without a look at what they would move next.
  void give_up() noexcept {
    std::lock_guard const lock(busy_);
    progress_list::moving const now;
    if (!calls_.empty()) group_.give_up();
    for (; !calls_.empty(); drop_first()) calls_.front()->examine();
  }

  // Once in a nap's time, while looks find nothing; and the clock is not read each time.
  bool time_to_examine() noexcept {
    if (++looks_ % 16 != 0 || !next_look_.passed()) return false;
    next_look_ = deadline::after(nap_length);
    return true;
  }

  group<Transport>& group_;
  std::atomic<std::thread::id> thread_{std::this_thread::get_id()};  // which used this communicator last
  bool any_thread_ = true;
  std::mutex busy_;
  std::deque<std::shared_ptr<queued_call<Transport>>> calls_;
  unsigned looks_ = 0;
  deadline next_look_ = deadline::after(nap_length);
};

}  // namespace tutti::detail
