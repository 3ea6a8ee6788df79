// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The backend "tutti" of torch.distributed: every call starts the collective or message of tutti that has its meaning.
#pragma once

#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "reductions.hpp"
#include "work.hpp"

namespace tutti_torch {

class backend : public c10d::Backend {
 public:
  using tensors = std::vector<at::Tensor>;
  using work_handle = c10::intrusive_ptr<c10d::Work>;

  // All ranks of the group create it. `members` are their ranks in the group of all, or nothing if it is that group.
  backend(c10::intrusive_ptr<c10d::Store> const& store, int rank, int size, std::chrono::milliseconds timeout,
          std::vector<int> const& members);
  ~backend() override { close(); }

  std::string const getBackendName() const override { return "tutti"; }
  c10::intrusive_ptr<Options> getBackendOptions() override {
    return c10::make_intrusive<Options>(getBackendName(), timeout_.load());
  }
  void setTimeout(std::chrono::milliseconds timeout) override { timeout_ = timeout; }
  // The same on all ranks, which TORCH_DISTRIBUTED_DEBUG=DETAIL expects.
  std::uint64_t getSequenceNumberForGroup() override { return collectives_; }
  bool supportsSplitting() const override { return true; }
  // The group of these ranks, or null at the others.
  c10::intrusive_ptr<Backend> split(c10::intrusive_ptr<c10d::Store> const& store, std::vector<int> const& ranks,
                                    c10::intrusive_ptr<Options> const& o) override;

  work_handle broadcast(tensors& data, c10d::BroadcastOptions const& o) override;
  work_handle allreduce(tensors& data, c10d::AllreduceOptions const& o) override;
  work_handle allreduce_coalesced(tensors& data, c10d::AllreduceCoalescedOptions const& o) override;
  work_handle reduce(tensors& data, c10d::ReduceOptions const& o) override;
  work_handle allgather(std::vector<tensors>& out, tensors& in, c10d::AllgatherOptions const& o) override;
  work_handle _allgather_base(at::Tensor& out, at::Tensor& in, c10d::AllgatherOptions const& o) override;
  work_handle allgather_coalesced(std::vector<tensors>& out, tensors& in, c10d::AllgatherOptions const& o) override;
  work_handle allgather_into_tensor_coalesced(tensors& out, tensors& in, c10d::AllgatherOptions const& o) override;
  work_handle gather(std::vector<tensors>& out, tensors& in, c10d::GatherOptions const& o) override;
  work_handle scatter(tensors& out, std::vector<tensors>& in, c10d::ScatterOptions const& o) override;
  work_handle reduce_scatter(tensors& out, std::vector<tensors>& in, c10d::ReduceScatterOptions const& o) override;
  work_handle _reduce_scatter_base(at::Tensor& out, at::Tensor& in, c10d::ReduceScatterOptions const& o) override;
  work_handle reduce_scatter_tensor_coalesced(tensors& out, tensors& in, c10d::ReduceScatterOptions const& o) override;
  work_handle alltoall_base(at::Tensor& out, at::Tensor& in, std::vector<std::int64_t>& out_splits,
                            std::vector<std::int64_t>& in_splits, c10d::AllToAllOptions const& o) override;
  work_handle alltoall(tensors& out, tensors& in, c10d::AllToAllOptions const& o) override;
  work_handle barrier(c10d::BarrierOptions const& o) override;
  // A barrier, because any names the ranks that are missing.
  void monitoredBarrier(c10d::BarrierOptions const& o, bool wait_all_ranks) override;

  work_handle send(tensors& data, int to, int tag) override;
  work_handle recv(tensors& data, int from, int tag) override;
  work_handle recvAnysource(tensors& data, int tag) override;

  // Ends the calls of all ranks with an error.
  void abort() override;
  // Waits for the calls in flight. While Python handles an exception, as in a `finally`, ends them with an error on all ranks instead,
  // because nobody may come to end them.
  void shutdown() override;

 private:
  // all_reduce of a tensor with coordinates. Waits until all ranks have told how many elements they have; then starts to gather these.
  work_handle sum_sparse(tensors& data, c10d::AllreduceOptions const& o);

  // Starts a call by start(comm, options, call), one at a time, because calls start in the same order on all ranks.
  template <class Start>
  work_handle begin(c10d::OpType what, char const* title, tensors const& inputs, std::chrono::milliseconds timeout,
                    Start&& start);

  std::shared_ptr<group> release();
  void close();

  std::vector<int> const members_;
  std::mutex starting_;
  std::shared_ptr<group> group_;
  std::atomic<std::chrono::milliseconds> timeout_;
  std::atomic<std::uint64_t> collectives_ = 0;  // started
};

}  // namespace tutti_torch
