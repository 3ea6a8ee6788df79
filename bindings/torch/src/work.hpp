// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What torch.distributed knows of a call.
#pragma once

#include <torch/csrc/distributed/c10d/Work.hpp>

#include <atomic>
#include <memory>
#include <vector>

#include "call.hpp"

namespace tutti_torch {

class work : public c10d::Work {
 public:
  work(int rank, c10d::OpType what, char const* title, std::vector<at::Tensor> const& inputs, std::shared_ptr<group> of,
       std::shared_ptr<call> one)
      : Work(rank, what, title, inputs), group_(std::move(of)), call_(std::move(one)) {}
  // The call goes on, although nobody will wait for it.
  ~work() override;

  bool isCompleted() override;
  bool isSuccess() const override;
  std::exception_ptr exception() const override { return call_->exception(); }
  bool wait(std::chrono::milliseconds timeout) override;
  void synchronize() override {}
  std::vector<at::Tensor> result() override { return call_->results; }
  int sourceRank() const override;
  std::uint64_t getSequencenumber() const override;
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override;

 private:
  void note_end();

  std::shared_ptr<group> group_;
  std::shared_ptr<call> call_;
  std::atomic<bool> end_is_noted_ = false;
};

}  // namespace tutti_torch
