// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "call.hpp"

#include <ATen/core/LegacyTypeDispatch.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <utility>

namespace tutti_torch {
namespace {

// What torch.distributed throws: torch.distributed.DistBackendError.
std::exception_ptr as_backend_error(std::exception_ptr const& thrown) {
  try {
    std::rethrow_exception(thrown);
  } catch (tutti::error const& e) {
    return std::make_exception_ptr(c10::DistBackendError({__func__, __FILE__, __LINE__}, e.what()));
  } catch (...) {
    return thrown;
  }
}

}  // namespace

void group::own(std::shared_ptr<call> one) {
  std::lock_guard const lock(mutex_);
  calls_.push_back(std::move(one));
}

std::list<std::shared_ptr<call>> group::take(bool all) {
  std::list<std::shared_ptr<call>> taken;
  std::lock_guard const lock(mutex_);
  for (auto i = calls_.begin(); i != calls_.end();) {
    auto const next = std::next(i);
    if (all || (*i)->works_have_ended()) taken.splice(taken.end(), calls_, i);
    i = next;
  }
  return taken;
}

void group::settle() {
  for (auto const& one : take(false)) one->drive(std::nullopt);
}

void group::finish_all() {
  for (auto const& one : take(true)) one->drive(std::nullopt);
}

bool call::works_have_ended() const noexcept {
  return started_.load(std::memory_order_acquire) &&
         std::ranges::all_of(works, [](tutti::work const& one) { return one.done(); }) && (!receive || receive->done());
}

void call::advance(std::chrono::nanoseconds limit) noexcept {
  auto const of = group_;  // keeps the communicator
  try {
    for (tutti::work one : works)
      if (!one.done()) return static_cast<void>(one.wait(limit));
    if (receive && !receive->done()) static_cast<void>(tutti::work(*receive).wait(limit));
  } catch (...) {  // drive() throws it again
  }
}

bool call::drive(std::optional<std::chrono::nanoseconds> limit) {
  auto const of = group_;
  {
    std::lock_guard const lock(mutex_);
    if (phase_ == over) return true;
  }
  std::exception_ptr thrown;
  auto const until = std::chrono::steady_clock::now() + limit.value_or(std::chrono::nanoseconds(0));
  try {
    auto const ends = [&](tutti::work one) {
      if (!limit) return one.wait(), true;
      if (limit->count() == 0) return one.test();
      return one.wait(std::max<std::chrono::nanoseconds>(until - std::chrono::steady_clock::now(), {}));
    };
    for (tutti::work const& one : works)
      if (!ends(one)) return false;
    if (receive && !ends(*receive)) return false;
  } catch (...) {
    thrown = as_backend_error(std::current_exception());
  }
  end(std::move(thrown));
  return true;
}

void call::end(std::exception_ptr thrown) {
  {
    std::unique_lock lock(mutex_);
    if (phase_ != running) return ends_.wait(lock, [&] { return phase_ == over; });
    phase_ = ending;
  }
  try {
    if (!thrown && receive) source_ = tutti::receive_work(*receive).get().source;
    if (!thrown && finish) {
      at::ThreadLocalStateGuard const as_the_caller(state_);
      at::AutoDispatchBelowADInplaceOrView const below_autograd;
      finish();
    }
  } catch (...) {
    thrown = std::current_exception();
  }
  finish = {};
  used.clear();
  future_handle future;
  {
    std::lock_guard const lock(mutex_);
    exception_ = std::move(thrown);
    phase_ = over;
    future = future_;
  }
  ends_.notify_all();
  if (future) complete(*future);
}

void call::complete(c10::ivalue::Future& future) const {
  if (exception_) future.setError(exception_);
  else future.markCompleted(c10::IValue(results));
}

future_handle call::future(bool& must_be_driven) {
  future_handle made;
  {
    std::lock_guard const lock(mutex_);
    if (future_) return future_;
    made = future_ = c10::make_intrusive<c10::ivalue::Future>(c10::ListType::create(c10::TensorType::get()));
    must_be_driven = phase_ != over;
  }
  if (!must_be_driven) complete(*made);
  return made;
}

// Whoever has the future of a call that has ended may read its value.
bool call::ended() const {
  std::lock_guard const lock(mutex_);
  return phase_ == over && (!future_ || future_->completed());
}

std::exception_ptr call::exception() const {
  std::lock_guard const lock(mutex_);
  return phase_ == over ? exception_ : nullptr;
}

}  // namespace tutti_torch
