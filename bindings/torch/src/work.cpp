// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "work.hpp"

#include <c10/util/Exception.h>

#include <condition_variable>
#include <list>
#include <thread>
#include <utility>

namespace tutti_torch {
namespace {

// A thread that drives calls whose futures somebody has, because waiting for a future drives nothing. It is started with the first.
class driver {
 public:
  static void drive(c10::intrusive_ptr<work> call) {
    static driver one;
    std::lock_guard const lock(one.mutex_);
    one.calls_.push_back(std::move(call));
    if (!one.thread_.joinable()) one.thread_ = std::thread([] { one.run(); });
    one.changed_.notify_one();
  }
  ~driver() {
    {
      std::lock_guard const lock(mutex_);
      stops_ = true;
    }
    changed_.notify_one();
    if (thread_.joinable()) thread_.join();
  }

 private:
  void run() {
    for (;;) {
      std::list<c10::intrusive_ptr<work>> calls;
      {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [&] { return stops_ || !calls_.empty(); });
        if (stops_) return;
        calls = calls_;
      }
      // Waiting for one drives all calls of the process. Messages may end in any order.
      calls.front()->drive(std::chrono::milliseconds(1));
      for (auto const& call : calls) call->isCompleted();
      std::lock_guard const lock(mutex_);
      calls_.remove_if([](auto const& call) { return call->isCompleted(); });
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::list<c10::intrusive_ptr<work>> calls_;
  bool stops_ = false;
  std::thread thread_;
};

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

work::work(int rank, c10d::OpType what, char const* title, std::vector<at::Tensor> const& inputs, started&& call)
    : Work(rank, what, title, inputs), call_(std::move(call)) {}

bool work::drive(std::optional<std::chrono::nanoseconds> limit) {
  {
    std::lock_guard const lock(mutex_);
    if (completed_) return true;
  }
  std::exception_ptr thrown;
  auto const until = std::chrono::steady_clock::now() + limit.value_or(std::chrono::nanoseconds(0));
  try {
    auto const ended = [&](auto& one) {
      if (!limit) return one.wait(), true;
      if (limit->count() == 0) return one.test();
      return one.wait(std::max(until - std::chrono::steady_clock::now(), std::chrono::nanoseconds(0)));
    };
    for (tutti::work& one : call_.works)
      if (!ended(one)) return false;
    if (call_.receive && !ended(*call_.receive)) return false;
  } catch (...) {
    thrown = as_backend_error(std::current_exception());
  }
  end(std::move(thrown));
  return true;
}

void work::end(std::exception_ptr thrown) {
  c10::intrusive_ptr<c10::ivalue::Future> future;
  {
    std::lock_guard const only(ending_);
    {
      std::lock_guard const lock(mutex_);
      if (completed_) return;
    }
    try {
      if (!thrown && call_.finish) call_.finish();
    } catch (...) {
      thrown = std::current_exception();
    }
    finish(thrown);
    future = future_;
  }
  // Its callbacks may wait for other locks, such as that of the Python interpreter.
  if (future) complete(*future, thrown);
}

void work::complete(c10::ivalue::Future& future, std::exception_ptr const& thrown) const {
  if (thrown) future.setError(thrown);
  else future.markCompleted(c10::IValue(call_.results));
}

bool work::isCompleted() { return drive(std::chrono::nanoseconds(0)); }

bool work::isSuccess() const {
  std::lock_guard const lock(mutex_);
  return completed_ && !exception_;
}

bool work::wait(std::chrono::milliseconds timeout) {
  bool const ended = drive(timeout == kNoTimeout ? std::nullopt : std::optional<std::chrono::nanoseconds>(timeout));
  TORCH_CHECK_WITH(DistBackendError, ended, "tutti: ", c10d::opTypeToString(opType_), " has not ended within ",
                   timeout.count(), " ms; it continues");
  std::lock_guard const lock(mutex_);
  if (exception_) std::rethrow_exception(exception_);
  return true;
}

std::vector<at::Tensor> work::result() { return call_.results; }

int work::sourceRank() const {
  TORCH_CHECK(call_.receive, "tutti: only a message that was received from any rank tells its source");
  return tutti::receive_work(*call_.receive).get().source;
}

std::uint64_t work::getSequencenumber() const { return call_.works.empty() ? 0 : call_.works.front().sequence(); }

c10::intrusive_ptr<c10::ivalue::Future> work::getFuture() {
  std::unique_lock only(ending_);
  if (future_) return future_;
  future_ = c10::make_intrusive<c10::ivalue::Future>(c10::ListType::create(c10::TensorType::get()));
  std::unique_lock lock(mutex_);
  bool const ended = completed_;
  lock.unlock();
  only.unlock();
  if (ended) complete(*future_, exception_);
  else driver::drive(c10::intrusive_ptr<work>::unsafe_reclaim_from_nonowning(this));
  return future_;
}

}  // namespace tutti_torch
