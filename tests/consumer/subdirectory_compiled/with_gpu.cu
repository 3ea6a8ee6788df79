// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Two ranks that share a GPU, where there is one.
#include <cstdio>
#include <span>

#include "tutti/cuda.cuh"
#include "tutti/tutti.hpp"

int main() {
  if (tutti::cuda_device_count() == 0) {
    std::puts("there is no GPU");
    return 0;
  }
  tutti::run_local(2, [](auto& comm) {
    tutti::cuda_device const gpu = tutti::cuda_device_of(comm.local_rank());
    tutti::cuda_ipc ranks(comm, gpu);
    std::span<float> const data = ranks.template allocate<float>(1000);
    tutti::all_reduce(ranks, data);
    ranks.work().wait();
  });
}
