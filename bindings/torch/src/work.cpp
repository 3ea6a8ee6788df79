// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "work.hpp"

#include <c10/util/Exception.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <thread>

#include "drivers.hpp"
#include "interpreter.hpp"

namespace tutti_torch {
namespace {

constexpr std::chrono::milliseconds longest_deafness(100);  // of a wait to signals

}  // namespace

// For the profiler.
void work::note_end() {
  if (!end_is_noted_.exchange(true)) finish(call_->exception());
}

work::~work() {
  if (call_->needs_driver()) drive_in_background(call_);
}

bool work::isCompleted() {
  without_interpreter_lock const others_run;
  if (!call_->drive(std::chrono::nanoseconds(0))) return false;
  if (!call_->ended() && !futures_are_driven()) call_->complete();
  if (!call_->ended()) return false;
  group_->settle();
  note_end();
  return true;
}

bool work::isSuccess() const { return call_->ended() && !call_->exception(); }

bool work::wait(std::chrono::milliseconds timeout) {
  without_interpreter_lock const others_run;
  using clock = std::chrono::steady_clock;
  std::optional<clock::time_point> const until =
      timeout == kNoTimeout ? std::nullopt : std::optional(clock::now() + timeout);
  bool ended = false;
  for (;;) {
    clock::duration slice = longest_deafness;
    if (until) slice = std::clamp<clock::duration>(*until - clock::now(), clock::duration(0), slice);
    ended = call_->drive(slice);
    if (ended || (until && clock::now() >= *until)) break;
    run_signal_handlers();
  }
  TORCH_CHECK_WITH(DistBackendError, ended, "tutti: ", c10d::opTypeToString(opType_), " has not ended within ",
                   timeout.count(), " ms; it continues");
  group_->settle();
  while (!call_->ended())
    if (futures_are_driven()) std::this_thread::sleep_for(std::chrono::microseconds(10));
    else call_->complete();
  note_end();
  if (auto const thrown = call_->exception()) std::rethrow_exception(thrown);
  return true;
}

int work::sourceRank() const {
  TORCH_CHECK(call_->receive && isSuccess(), "tutti: only a message that was received tells its source");
  return call_->source();
}

std::uint64_t work::getSequencenumber() const { return call_->works.empty() ? 0 : call_->works.front().sequence(); }

c10::intrusive_ptr<c10::ivalue::Future> work::getFuture() {
  without_interpreter_lock const others_run;
  bool is_new = false;
  auto future = call_->future(is_new);
  if (is_new) drive_in_background(call_);
  return future;
}

}  // namespace tutti_torch
