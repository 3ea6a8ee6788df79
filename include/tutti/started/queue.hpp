// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The queues of a communicator: started calls and messages, driven by any thread that waits. Each collective begins
// when those before it have ended.
#pragma once

#include <atomic>
#include <chrono>
#include <exception>
#include <memory>
#include <mutex>
#include <new>
#include <source_location>
#include <thread>
#include <type_traits>
#include <utility>

#include "tutti/call/perform.hpp"
#include "tutti/core/wait.hpp"
#include "tutti/started/buffer_check.hpp"
#include "tutti/started/progress.hpp"
#include "tutti/started/work.hpp"

namespace tutti::detail {

template <class Transport>
class call_queue : public pending_calls {
 public:
  call_queue(call_queue const&) = delete;
  call_queue& operator=(call_queue const&) = delete;

  progress advance() noexcept override {
    use_here();
    progress const reached = move_locked(false);
    follower::run_due();
    return reached;
  }
  progress help() noexcept final {
    if (!engine_.any_thread && std::this_thread::get_id() != thread_.load()) return progress::stuck;
    std::unique_lock const lock(busy_, std::try_to_lock);
    return lock ? move(false) : progress::stuck;
  }

 protected:
  explicit call_queue(engine<Transport>& on) : engine_(on) {}

  // Under the lock: progresses as far as possible without waiting. `waits`: this thread will poll again.
  virtual progress move(bool waits) noexcept = 0;
  // Ends all calls without further progress.
  virtual void give_up() noexcept = 0;

  void use_here() noexcept { thread_ = std::this_thread::get_id(); }
  // Counts a further call, which the list of the process includes from now on.
  void count_started() {
    if (!std::exchange(listed_, true)) progress_list::of_process().add(*this);
    count_.fetch_add(1, std::memory_order_relaxed);
    progress_list::of_process().count_started();
  }
  void count_ended() noexcept {
    count_.fetch_sub(1, std::memory_order_release);
    progress_list::of_process().count_ended();
  }

  // Like wait(), with the nap of wait_until_done.
  template <class Nap>
  bool wait_for(pending_call const* one, deadline until, Nap&& nap) {
    use_here();
    progress_list::waiter const here;
    auto const look = [&] {
      progress reached = move_locked(true);
      follower::run_due_here();
      if (reached == progress::stuck && one != nullptr && one->joins()) reached = progress_list::help();
      return (one != nullptr ? one->ended() : count() == 0) ? progress::done : reached;
    };
    return wait_until_done(look, engine_.transport().waits(), until, nap);
  }

  // Whether to examine the wait: true once per nap's time while there is no progress. It does not read the clock at
  // every poll.
  bool time_to_examine() noexcept {
    if (++looks_ % 16 != 0 || !next_look_.passed()) return false;
    next_look_ = deadline::after(nap_length);
    return true;
  }

  // Called before destruction: waits, because the memory of the program is still in use; gives up during an exception,
  // after which that memory may be gone.
  void close() {
    if (std::uncaught_exceptions() > 0) {
      give_up();
      follower::run_due();
    }
    finish();
    if (listed_) progress_list::of_process().remove(*this);
  }

  engine<Transport>& engine_;
  std::mutex busy_;

 private:
  progress move_locked(bool waits) noexcept {
    std::lock_guard const lock(busy_);
    return move(waits);
  }

  std::atomic<std::thread::id> thread_{std::this_thread::get_id()};  // the thread that used this communicator last
  bool listed_ = false;
  unsigned looks_ = 0;
  deadline next_look_ = deadline::after(nap_length);
};

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
      if (!began_) begin_here();
      reached = poll();
      if (reached != progress::done) return;
      if (found()) engine_.report(found(), terms().where);
      engine_.finish(terms().where);
      succeed();
      end(nullptr);
    });
    return ended() ? progress::done : reached;
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
  virtual progress poll() noexcept = 0;
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

  template <class F>
  void attempt(F&& f) noexcept {
    try {
      f();
    } catch (...) {
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
      // `examine` asks a transport for news that does not deliver it by itself, while nobody else drives these calls.
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

  std::shared_ptr<queued_call<Transport>> first_;  // each links to the next
  queued_call<Transport>* last_ = nullptr;
};

// A copy of a call and its operation with the state of its execution. Starting a call again allocates nothing.
template <class Call>
struct kept_call {
  explicit kept_call(Call&& c) : call(std::move(c)) {}
  Call call;
};
template <collective C, class Algorithm, class T, class Op, class Memory>
struct kept_call<reduction<C, Algorithm, T, Op, Memory>> {
  explicit kept_call(reduction<C, Algorithm, T, Op, Memory>&& c)
      : op(c.body.op), call{std::move(static_cast<call_terms&>(c)), std::move(c.memory), {op}} {}
  Op op;
  reduction<C, Algorithm, T, Op, Memory> call;
};

// The memory of the caller that a call uses between its start and its end, if buffers are checked.
template <class Call, class Packing>
std::unique_ptr<buffers_in_use> buffers_of(Call const& c, Packing const& packing, int rank, int ranks) {
  auto use = std::make_unique<buffers_in_use>(join({name(Call::what), c.asked.ragged ? "_v" : ""}), rank, c.where);
  if constexpr (std::is_same_v<Packing, nothing_to_pack>) c.memory.list_buffers(*use, c.asked, rank, ranks);
  else packing.list_buffers(*use);
  return use;
}

template <class Transport, class Call, class Packing>
class held_call final : public queued_call<Transport> {
 public:
  held_call(collective_queue<Transport>& queue, engine<Transport>& on, Call&& c, Packing&& packing)
      : queued_call<Transport>(queue, on), kept_(std::move(c)), packing_(std::move(packing)) {
    kept_.call.asked.started = true;
    if (on.environment.checks_buffers) this->check(buffers_of(kept_.call, packing_, on.rank(), on.ranks()));
  }

 private:
  using parts = in_bytes<Transport, Call>;
  static constexpr bool may_be_packets = detail::may_be_packets<Transport, decltype(Call::memory)>;
  using slices = slices_for<Transport>;
  using packets = std::conditional_t<may_be_packets, packet_execution<Call::what, Transport>, slices>;

  call_terms const& terms() const noexcept override { return kept_.call; }
  void begin(begun_call<Transport> const& begun) override {
    Call const& c = kept_.call;
    auto const& memory = memory_in_bytes(c.memory);
    packing_.pack();
    sends_packets_ = begun.plan().how == protocol::packet;
    if constexpr (may_be_packets)
      if (sends_packets_) {
        ::new (&packets_) packets(parts::packets(this->engine_, begun, c.asked, c.body.in_bytes(), memory));
        return;
      }
    surfaces_ = {.input = {}, .output = {}, .scratch = {}};
    ::new (&slices_) slices(parts::slices(this->engine_, begun, c.asked, c.body.in_bytes(), memory, surfaces_));
  }
  progress poll() noexcept override { return sends_packets_ ? packets_.poll() : slices_.poll(); }
  void succeed() override { packing_.unpack(); }
  protocol_violation const& found() const noexcept override {
    return sends_packets_ ? packets_.found() : slices_.found();
  }

  kept_call<Call> kept_;
  [[no_unique_address]] Packing packing_;
  surfaces<std::byte> surfaces_{.input = {}, .output = {}, .scratch = {}};
  bool sends_packets_ = false;
  union {
    packets packets_;
    slices slices_;
  };
  static_assert(std::is_trivially_destructible_v<packets> && std::is_trivially_destructible_v<slices>);
  static_assert(sizeof(typename Call::element) <= Transport::slice_bytes,
                "an element must fit into a slice (16 KiB over shared memory); send larger structs in parts");
};

// For a communicator of one rank, whose calls end when they start.
template <class Transport, class Call, class Packing>
class lone_call final : public pending_call {
 public:
  lone_call(engine<Transport>& on, Call&& c, Packing&& packing)
      : pending_call(nullptr, prepared), engine_(on), kept_(std::move(c)), packing_(std::move(packing)) {}

  static void start(std::shared_ptr<pending_call> const& call) { static_cast<lone_call&>(*call).run(); }

 private:
  void run() {
    restart();
    std::exception_ptr thrown;
    try {
      run_alone(engine_, kept_.call, packing_);
    } catch (...) {
      thrown = std::current_exception();
    }
    end(std::move(thrown));
    follower::run_due();
  }

  engine<Transport>& engine_;
  kept_call<Call> kept_;
  [[no_unique_address]] Packing packing_;
};

template <class Transport, class Call, class Packing>
persistent hold(engine<Transport>& on, Call&& c, Packing&& packing) {
  auto& queue = collective_queue<Transport>::of(on);
  return {std::make_shared<held_call<Transport, Call, Packing>>(queue, on, std::forward<Call>(c),
                                                                std::forward<Packing>(packing)),
          collective_queue<Transport>::start};
}

// Keeps a call on this communicator, to be started any number of times.
template <class Transport, class Call, class Packing>
persistent prepare(communicator<Transport>& comm, Call&& c, Packing&& packing) {
  static_assert(may_be_scheduled<Call>, "native and two_level wait internally; use them only in blocking calls");
  if (comm.size() == 1)
    return {std::make_shared<lone_call<Transport, Call, Packing>>(comm.engine(), std::forward<Call>(c),
                                                                  std::forward<Packing>(packing)),
            lone_call<Transport, Call, Packing>::start};
  algorithm_id const asked = c.asked.algorithm;
  if (asked == algorithm_id::native || asked == algorithm_id::two_level)
    refuse(comm.rank(), join({name(asked), " waits internally, so it cannot carry out a started call"}),
           "name another algorithm or none, or make a blocking call", c.where);
  if (auto* const node = node_for<typename Call::algorithm>(comm, asked, c.where))
    return hold(node->engine(), std::forward<Call>(c), std::forward<Packing>(packing));
  return hold(comm.engine(), std::forward<Call>(c), std::forward<Packing>(packing));
}

}  // namespace tutti::detail
