// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// work: a handle of a started call. persistent: one that can be started as often as one likes.
#pragma once

#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <ranges>
#include <source_location>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "tutti/call/pending_calls.hpp"
#include "tutti/core/error.hpp"
#include "tutti/core/wait.hpp"
#include "tutti/started/call.hpp"
#include "tutti/started/progress.hpp"

namespace tutti {

class work;
namespace detail {
work joined(std::span<work const> all);
}

// What a collective on tutti::async(comm) returns. Copies are handles of one call. Dropping them all does not end it.
//
// From the start to the end of a call its memory is its own: arrays stay where they are; what it reads may be read by anybody,
// other calls too, and written by nobody; what it writes is neither read nor written by anybody else. Lists of counts and
// offsets, and the operation, are copied at the start. TUTTI_CHECK=buffers in the environment, read once a communicator,
// checks that among all calls and messages of the process that were started: a start throws buffer_in_use where memory
// overlaps that of a call in flight and one of both writes it, and names both; a call whose input was changed ends with it
// on this rank, though other ranks may have used either value. What blocking calls use is not checked.
//
// A call goes on while its rank waits in tutti for anything, tests any work, or has a progress_thread.
class [[nodiscard]] work {
 public:
  work() = default;  // of a call that has ended
  explicit work(std::shared_ptr<detail::pending_call> call) : call_(std::move(call)) {}

  // Moves what was started, and says whether this call has ended. Throws what it has ended with.
  bool test() {
    advance();
    if (!done()) detail::progress_list::help();  // a peer may wait for another
    return done() && finish();
  }
  // Until the call has ended. Throws what it has ended with: what the blocking call would throw. Where its time
  // (options::timeout, counted from the first look of its turn that found it waiting for long) has passed, that is error:
  // timeout.
  void wait() { wait_until({}); }
  // The same for `most`, which is looked at while nothing moves. Whether the call has ended; it goes on if not.
  bool wait(std::chrono::nanoseconds most) { return wait_until(detail::deadline::after(most)); }

  // Moves the calls of this work's communicator, and throws nothing.
  void advance() {
    if (!done()) call_->queue()->advance();
  }
  bool done() const noexcept {
    if (!call_) return true;
    if (!call_->ended()) return false;
    call_->end_is_seen();
    return true;
  }
  // What the call has ended with; null where it went well, or goes on.
  std::exception_ptr exception() const noexcept { return call_ && call_->ended() ? call_->thrown() : nullptr; }
  // From the start to the end, or until now.
  std::chrono::nanoseconds duration() const noexcept { return call_ ? call_->duration() : std::chrono::nanoseconds(0); }
  // The number of the call on its communicator, by which errors and flight records name it. 0 before its turn has come, and
  // for what has none: messages, what a rank does alone, and what follows a call.
  std::uint64_t sequence() const noexcept { return call_ ? call_->sequence() : 0; }

  // Calls f() once when the call has ended well, and returns the work of that, which throws what f, or else the call, has
  // thrown: f is not called where the call went wrong. Several may follow one call, in any order.
  //
  // f runs here where the call has ended, or once this returns to tutti where that is from within such an f; else on the
  // thread that moves the call to its end: one that waits in tutti for anything, or the progress_thread. It must not wait in
  // tutti: calls that it needs it starts, and what is to come after them follows
  // them. Calls on a communicator must start in the same order on all ranks, so where f starts one, nothing else of this
  // rank starts calls there before f has run. A blocking collective of the same communicator waits for what follows
  // collectives, and is refused within it; what follows messages it does not know.
  //
  //   tutti::work done = tutti::all_reduce(tutti::async(comm), gradient).then([&] { step(weights, gradient); });
  template <std::invocable F>
  work then(F&& f) const {
    if (done() && exception()) return *this;
    detail::pending_calls* const calls = call_ ? call_->queue() : nullptr;
    auto const next = std::make_shared<detail::continuation<std::decay_t<F>>>(
        done() ? detail::late_followers::of_process() : *calls, calls, std::forward<F>(f));
    if (call_) call_->follow(next);
    else detail::follower::make_due(next);
    detail::follower::run_due();
    return work(next);
  }

 protected:
  std::shared_ptr<detail::pending_call> const& call() const noexcept { return call_; }
  // Whoever starts it again has learnt of the end before.
  void expect_seen(std::source_location where) const {
    if (call_ && !call_->end_was_seen())
      throw error({.code = error_code::bad_argument,
                   .what = "a persistent operation is started again, and nobody has seen that it has ended",
                   .way_out = "wait() for it first",
                   .where = where});
  }

 private:
  friend work detail::joined(std::span<work const> all);

  bool wait_until(detail::deadline until) {
    if (!done()) call_->queue()->wait(call_.get(), until);
    return done() && finish();
  }
  bool finish() const {
    if (call_ && call_->thrown()) std::rethrow_exception(call_->thrown());
    return true;
  }

  std::shared_ptr<detail::pending_call> call_;
};

namespace detail {

// The work of several, of one communicator.
inline work joined(std::span<work const> all) {
  std::vector<std::shared_ptr<pending_call>> calls;
  pending_calls* queue = nullptr;
  for (work const& w : all) {
    if (!w.call_) continue;
    calls.push_back(w.call_);
    if (!w.call_->ended()) queue = w.call_->queue();
  }
  if (calls.empty()) return work();
  auto whole = std::make_shared<joined_call>(queue, calls.size());
  joined_call::follow(whole, calls);
  return work(std::move(whole));
}

// f() starts calls and adds them to the list. Where it throws in the middle, the caller has no handle of those, so they end
// first.
template <class F>
void start_all(std::vector<work>& all, F&& f) {
  try {
    f();
  } catch (...) {
    for (work& w : all) {
      try {
        w.wait();
      } catch (...) {
      }  // what f has thrown tells
    }
    throw;
  }
}

}  // namespace detail

// What a collective or message on tutti::prepared(comm) returns: the work of its last start. Copies are handles of one
// operation. It keeps its arguments: the same memory is read and written at every start, which must be there from a start to
// its end, as that of any work. Operations must not be started when their communicator has gone.
class [[nodiscard]] persistent : public work {
 public:
  using starter = void (*)(std::shared_ptr<detail::pending_call> const& call);

  persistent() = default;  // of nothing, which has always ended
  persistent(std::shared_ptr<detail::pending_call> call, starter how) : work(std::move(call)), start_(how) {}

  // All ranks start collectives in the order of their other calls; it counts as such a call, as one that is started by
  // tutti::async. Nothing is allocated from the second start on, but by the MPI if there is one; and a message that comes
  // before its receive was started, is kept in memory of its own.
  // Throws error: bad_argument where nobody has seen the end of the start before, by wait, test or done, or by then; a
  // message's start also the fault that the communicator has.
  void start(std::source_location where = std::source_location::current()) {
    if (!call()) return;
    expect_seen(where);
    call()->start_checked([&] { start_(call()); });
  }

 private:
  starter start_ = nullptr;
};

// A vector of work, or of what derives from it: of receive_work, of persistent.
template <class R>
concept list_of_works = std::ranges::random_access_range<R> && std::derived_from<std::ranges::range_value_t<R>, work>;

// Until all have ended. Throws what the first of the list that went wrong has ended with, when all have ended.
template <list_of_works Works = std::span<work>>
void wait_for_all(Works&& all) {
  std::exception_ptr first;
  for (work& w : all) {
    try {
      w.wait();
    } catch (...) {
      if (!first) first = std::current_exception();
    }
  }
  if (first) std::rethrow_exception(first);
}

// Until one has ended: its place in the list, the first if several have. None of an empty list. Throws what it has ended
// with.
template <list_of_works Works = std::span<work>>
std::optional<std::size_t> wait_for_any(Works&& all) {
  if (std::ranges::empty(all)) return {};
  detail::progress_list::attendance const here;
  for (detail::idler rest;; rest.pause()) {
    std::size_t place = 0;
    for (work& w : all) {
      if (w.done()) {
        w.wait();
        return place;
      }
      ++place;
    }
    for (work& w : all) w.advance();
    if (detail::progress_list::help() == detail::progress::moved) rest.moved();
  }
}

}  // namespace tutti
