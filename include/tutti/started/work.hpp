// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// work: a handle of a started call. persistent: one that can be started repeatedly.
#pragma once

#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <exception>
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
#include "tutti/core/text.hpp"
#include "tutti/core/time_limit.hpp"
#include "tutti/core/wait.hpp"
#include "tutti/started/call.hpp"
#include "tutti/started/progress.hpp"

namespace tutti {

class work;
namespace detail {
// The work of several works of one communicator.
work joined(std::span<work const> all);
}  // namespace detail

// Returned by collectives on tutti::async(comm). Copies refer to the same call. Dropping all of them does not end it.
//
// A call owns its memory from its start to its end. Arrays must not move. Other calls and the program may read its
// inputs, but nobody may write them; nobody may read or write its outputs. Lists of counts and offsets, and the
// operation, are copied at the start. TUTTI_CHECK=buffers in the environment, read once per communicator, checks this
// among all started calls and messages of the process: a start throws buffer_in_use, naming both calls, if its memory
// overlaps that of a call in flight and one of them writes it; a call whose input was changed ends with the same error
// on this rank, though other ranks may have used either value. Memory of blocking calls is not checked.
//
// A call progresses while its rank waits in tutti for anything, tests any work, or has a progress_thread.
class TUTTI_NODISCARD("the call continues without its work, so nothing says when its arrays may be used") work {
 public:
  work() = default;  // of a call that has ended
  explicit work(std::shared_ptr<detail::pending_call> call) : call_(std::move(call)) {}

  // Drives started calls, and returns whether this one has ended. Throws the error of the call.
  bool test() {
    if (done()) return finish();
    detail::pending_calls& calls = *call_->queue();
    detail::progress reached = calls.advance();
    if (!done() && detail::progress_list::help() != detail::progress::stuck)  // a peer may be waiting for another call
      reached = detail::progress::moved;
    if (done()) return finish();
    calls.count_test(reached);
    return false;
  }
  // Waits until the call has ended. Throws what the blocking call would throw; error: timeout once options::timeout has
  // passed, counted from the first poll of the running call that found it waiting for long.
  void wait() { wait_until({}); }
  // The same for at most `most`, which is checked while there is no progress; a negative time counts as none. Returns
  // whether the call has ended; if not, it continues.
  bool wait(time_limit most) { return wait_until(detail::deadline::after(most)); }

  // Drives the calls of this work's communicator, and throws nothing.
  void advance() {
    if (!done()) call_->queue()->advance();
  }
  bool done() const noexcept {
    if (!call_) return true;
    if (!call_->ended()) return false;
    call_->end_is_seen();
    return true;
  }
  // The exception of the call; null if it succeeded or is in progress.
  std::exception_ptr exception() const noexcept { return call_ && call_->ended() ? call_->thrown() : nullptr; }
  // The time from the start to the end, or until now.
  std::chrono::nanoseconds duration() const noexcept { return call_ ? call_->duration() : std::chrono::nanoseconds(0); }
  // The number of the call on its communicator, which errors and flight records name. 0 before its turn, and for work
  // that has none: messages, work of a single rank, and continuations.
  std::uint64_t sequence() const noexcept { return call_ ? call_->sequence() : 0; }

  // Calls f() once the call has succeeded, and returns the work of that. If the call fails, f is not called, and the
  // returned work throws the error of the call; otherwise it throws the exceptions of f. Several continuations may
  // follow one call, in any order.
  //
  // f runs in this function if the call has ended, or, within another continuation, once that has returned; else on the
  // thread that drives the call to its end: one that waits in tutti, or the progress_thread. It must not wait in tutti;
  // instead it starts the calls that it needs, and adds continuations to them. Calls on a communicator must start in
  // the same order on all ranks, so if f starts one, nothing else on this rank may start calls there before f has run.
  // A blocking collective on the same communicator waits for the continuations of collectives, and throws if called
  // within one; it does not wait for continuations of messages.
  //
  //   tutti::work done = tutti::all_reduce(tutti::async(comm), gradient).then([&] { step(weights, gradient); });
  template <std::invocable F>
  work then(F&& f) const {
    if (done() && exception()) return *this;
    detail::pending_calls* const calls = call_ ? call_->queue() : nullptr;
    auto const next = std::make_shared<detail::continuation<std::decay_t<F>>>(
        done() ? detail::late_followers::unless_counting(calls) : *calls, calls, std::forward<F>(f));
    if (call_) call_->follow(next);
    else detail::follower::make_due(next);
    detail::follower::run_due();
    return work(next);
  }

 protected:
  std::shared_ptr<detail::pending_call> const& call() const noexcept { return call_; }
  // A further start is allowed only if the end of the previous one was seen.
  void expect_seen(int rank, std::source_location where) const {
    if (call_ && !call_->end_was_seen())
      throw error({.code = error_code::bad_argument,
                   .rank = rank,
                   .what = "a prepared call was started again before wait() or test() reported its end",
                   .way_out = "call wait() first",
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

// f() starts calls and adds them to the list. If it throws halfway, the caller has no handles of those calls, so this
// waits for them first.
template <class F>
void start_all(std::vector<work>& all, F&& f) {
  try {
    f();
  } catch (...) {
    for (work& w : all) {
      try {
        w.wait();
      } catch (...) {
      }  // the exception of f says more
    }
    throw;
  }
}

[[noreturn, gnu::cold]] inline void refuse_to_outlive(int rank, char const* what, char const* again,
                                                      std::source_location where) {
  throw error({.code = error_code::bad_argument,
               .rank = rank,
               .what = join({what, " was used after its communicator was destroyed"}),
               .way_out = join({again, " on another communicator, such as the one that shrink() returned"}),
               .where = where});
}

}  // namespace detail

// Returned by collectives and messages on tutti::prepared(comm): the work of the last start. Copies refer to the same
// operation. It keeps its arguments: every start reads and writes the same memory, which must exist from a start to its
// end, as for any work.
class TUTTI_NODISCARD("a prepared call does nothing until it is started") persistent : public work {
 public:
  using starter = void (*)(std::shared_ptr<detail::pending_call> const& call);

  persistent() = default;  // without a call, like one that was moved from: it counts as ended, and cannot be started
  // `communicator`: expires with it. `rank`: the caller's, which errors name.
  persistent(std::shared_ptr<detail::pending_call> call, starter how, std::weak_ptr<void const> communicator, int rank)
      : work(std::move(call)), start_(how), communicator_(std::move(communicator)), rank_(rank) {}

  // All ranks start collectives in the same order as their other calls; a start counts as a call like one on
  // tutti::async. From the second start on, nothing is allocated, except by an MPI, and for a message that arrives
  // before its receive was started.
  // Throws error: bad_argument if neither wait(), test() nor done() has reported the end of the previous start, or the
  // communicator was destroyed; for a message also the fault of the communicator.
  void start(std::source_location where = std::source_location::current()) {
    if (!call())
      throw error({.code = error_code::bad_argument,
                   .what = "a prepared call was started that is empty or was moved from",
                   .way_out = "assign a prepared call to it, or start the one that it was moved to",
                   .where = where});
    if (communicator_.expired()) detail::refuse_to_outlive(rank_, "a prepared call", "prepare it again", where);
    expect_seen(rank_, where);
    call()->start_checked([&] { start_(call()); });
  }

 private:
  starter start_ = nullptr;
  std::weak_ptr<void const> communicator_;
  int rank_ = -1;
};

// A vector of work, or of a type derived from it: receive_work, persistent.
template <class R>
concept list_of_works = std::ranges::random_access_range<R> && std::derived_from<std::ranges::range_value_t<R>, work>;

// Waits until all have ended. Then throws the error of the first in the list that failed.
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

// The same of works that are in variables.
//
//   tutti::wait_for_all(sum, halo);
template <std::derived_from<work>... Works>
  requires(sizeof...(Works) > 0)
void wait_for_all(Works const&... works) {
  work all[] = {works...};
  wait_for_all(std::span<work>(all));
}

// Waits until one has ended, and returns its index, the lowest if there are several; nothing for an empty list. Throws
// the error of that call.
template <list_of_works Works = std::span<work>>
std::optional<std::size_t> wait_for_any(Works&& all) {
  if (std::ranges::empty(all)) return {};
  detail::progress_list::waiter const here;
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

#if !defined(TUTTI_COMPILED)
#include "tutti/started/work_impl.hpp"
#endif
