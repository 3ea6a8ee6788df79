// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The work of a call, as torch.distributed waits for it.
#pragma once

#include <torch/csrc/distributed/c10d/Work.hpp>

#include <chrono>
#include <exception>
#include <functional>
#include <mutex>
#include <optional>
#include <vector>

#include "tutti/tutti.hpp"

namespace tutti_torch {

// What a call has started: its works, the tensors that they use, and what is left to do when they have ended.
struct started {
  std::vector<tutti::work> works;
  std::optional<tutti::receive_work> receive;  // of a message from any rank, which tells its source
  std::vector<at::Tensor> used;                // kept alive until the end
  std::vector<at::Tensor> results;
  std::function<void()> finish;  // copies results to where the program wants them; may be empty
};

// A call ends when a thread sees that its works have: one that waits for it, asks whether it has completed, or, once somebody has its
// future, the thread of `driver`.
class work : public c10d::Work {
 public:
  work(int rank, c10d::OpType what, char const* title, std::vector<at::Tensor> const& inputs, started&& call);

  bool isCompleted() override;
  bool isSuccess() const override;
  bool wait(std::chrono::milliseconds timeout) override;
  void synchronize() override {}
  std::vector<at::Tensor> result() override;
  int sourceRank() const override;
  std::uint64_t getSequencenumber() const override;
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override;

  // Drives the call for at most `limit`, or until its end without one. Returns whether it has ended.
  bool drive(std::optional<std::chrono::nanoseconds> limit);

 private:
  void end(std::exception_ptr thrown);
  void complete(c10::ivalue::Future& future, std::exception_ptr const& thrown) const;

  started call_;
  std::mutex ending_;  // held by the thread that finishes the call, or makes its future
  c10::intrusive_ptr<c10::ivalue::Future> future_;
};

}  // namespace tutti_torch
