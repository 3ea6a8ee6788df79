// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "call.hpp"

#include <ATen/core/LegacyTypeDispatch.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <utility>

#include "errors.hpp"

namespace tutti_torch {
namespace {

std::exception_ptr as_backend_error(std::exception_ptr const& thrown) {
  try {
    std::rethrow_exception(thrown);
  } catch (tutti::error const& e) {
    return std::make_exception_ptr(backend_error(e));
  } catch (...) {
    return thrown;
  }
}

}  // namespace

void group::own(std::shared_ptr<call> one) {
  std::lock_guard const lock(mutex_);
  calls_.push_back(std::move(one));
}

void group::disown(call const& one) {
  std::list<std::shared_ptr<call>> removed;  // destroyed after the lock is given back
  std::lock_guard const lock(mutex_);
  auto const found = std::ranges::find(calls_, &one, &std::shared_ptr<call>::get);
  if (found != calls_.end()) removed.splice(removed.end(), calls_, found);
}

std::vector<std::shared_ptr<call>> group::in_flight(bool all) {
  std::vector<std::shared_ptr<call>> out;
  std::lock_guard const lock(mutex_);
  for (auto const& one : calls_)
    if (all || one->works_have_ended()) out.push_back(one);
  return out;
}

void group::settle() {
  for (auto const& one : in_flight(false)) one->drive(std::nullopt);
}

void group::finish_all() {
  for (auto const& one : in_flight(true)) one->drive(std::nullopt);
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
  auto const ends = [&](tutti::work one) {
    try {
      if (!limit) return one.wait(), true;
      if (limit->count() == 0) return one.test();
      return one.wait(std::max<std::chrono::nanoseconds>(until - std::chrono::steady_clock::now(), {}));
    } catch (...) {  // the other works may go on, and use the tensors
      if (!one.done()) throw;
      if (!thrown) thrown = as_backend_error(std::current_exception());
      return true;
    }
  };
  try {
    for (tutti::work const& one : works)
      if (!ends(one)) return false;
    if (receive && !ends(*receive)) return false;
  } catch (...) {
    if (!thrown) thrown = as_backend_error(std::current_exception());
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
  auto const no_more =
      std::pair(std::exchange(finish, {}), std::exchange(used, {}));  // destroyed when the call is over
  {
    std::lock_guard const lock(mutex_);
    exception_ = std::move(thrown);
    phase_ = over;
  }
  ends_.notify_all();
  group_->disown(*this);
}

void call::complete() {
  drive(std::nullopt);
  future_handle future;
  {
    std::lock_guard const lock(mutex_);
    if (!future_ || somebody_completes_it_) return;
    somebody_completes_it_ = true;
    future = future_;
  }
  complete(*future);
}

void call::complete(c10::ivalue::Future& future) const {
  try {
    if (exception_) future.setError(exception_);
    else future.markCompleted(c10::IValue(results));
  } catch (std::exception const& e) {
    TORCH_WARN("tutti: a callback of a future has thrown: ", e.what());
  }
}

future_handle call::future(bool& must_be_driven) {
  future_handle made;
  {
    std::lock_guard const lock(mutex_);
    if (future_) return future_;
    made = future_ = c10::make_intrusive<c10::ivalue::Future>(c10::ListType::create(c10::TensorType::get()));
    must_be_driven = phase_ != over;
    somebody_completes_it_ = !must_be_driven;
  }
  if (!must_be_driven) complete(*made);
  return made;
}

// Whoever has the future of a call that has ended may read its value.
bool call::ended() const {
  std::lock_guard const lock(mutex_);
  return phase_ == over && (!future_ || future_->completed());
}

bool call::needs_driver() const {
  if (!group_->comm.engine().process.is_this()) return false;  // a forked child leaves it to its parent
  std::lock_guard const lock(mutex_);
  return phase_ == running && !future_;
}

std::exception_ptr call::exception() const {
  std::lock_guard const lock(mutex_);
  return phase_ == over ? exception_ : nullptr;
}

}  // namespace tutti_torch
