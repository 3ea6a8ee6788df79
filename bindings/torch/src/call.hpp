// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A call that has been started, and the group of ranks that owns it until its end.
#pragma once

#include <ATen/ATen.h>
#include <ATen/ThreadLocalState.h>
#include <ATen/core/ivalue.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "communicator.hpp"

namespace tutti_torch {

using future_handle = c10::intrusive_ptr<c10::ivalue::Future>;

class call;

// The communicator of a process group, and its calls in flight, whether or not the program keeps their works.
class group {
 public:
  explicit group(communicator comm) : comm(std::move(comm)) {}

  void own(std::shared_ptr<call> one);
  void disown(call const& one);
  // Ends the calls whose works have ended, so that their results are where the program wants them.
  void settle();
  // Waits for all calls, whether or not they succeed.
  void finish_all();

  communicator comm;

 private:
  std::vector<std::shared_ptr<call>> in_flight(bool all);

  std::mutex mutex_;
  std::list<std::shared_ptr<call>> calls_;
};

// A call ends when a thread sees that its works have: one that waits for it or for a later one, or, once somebody has its future, one of
// `drivers`. That thread copies the results. Only drivers complete futures, because callbacks may take any lock of the program; in a
// process whose drivers have stopped, the threads that wait do.
//
// Destructors of tensors take the lock of the Python interpreter, so no other lock is held then.
class call {
 public:
  explicit call(std::shared_ptr<group> of) : group_(std::move(of)) {}

  // -- While it is started, by one thread.
  std::vector<tutti::work> works;
  std::optional<tutti::receive_work> receive;  // of a message, which tells its source
  std::vector<at::Tensor> used;                // kept alive until the end
  std::vector<at::Tensor> results;
  std::function<void()> finish;  // copies results to where the program wants them; may be empty
  void note_started() { started_.store(true, std::memory_order_release); }

  // -- Afterwards, by any.

  // Drives the call for at most `limit`, or until its end without one. Returns whether it has ended.
  bool drive(std::optional<std::chrono::nanoseconds> limit);
  // The same without ending it. Throws nothing.
  void advance(std::chrono::nanoseconds limit) noexcept;
  bool works_have_ended() const noexcept;
  // Drives it, ends it, and completes its future.
  void complete();
  // Whether it has ended, and its future too, if somebody has that.
  bool ended() const;
  // Whether it goes on, and no thread drives it for its future.
  bool needs_driver() const;
  std::exception_ptr exception() const;
  // Its future. If the call has not ended and somebody else has not asked before, `must_be_driven`.
  future_handle future(bool& must_be_driven);
  int source() const { return source_; }

 private:
  void end(std::exception_ptr thrown);
  void complete(c10::ivalue::Future& future) const;

  std::shared_ptr<group> group_;
  at::ThreadLocalState state_;  // such as that of inference mode
  std::atomic<bool> started_ = false;
  int source_ = -1;

  mutable std::mutex mutex_;  // of what follows
  std::condition_variable ends_;
  enum { running, ending, over } phase_ = running;
  std::exception_ptr exception_;
  future_handle future_;
  bool somebody_completes_it_ = false;
};

}  // namespace tutti_torch
