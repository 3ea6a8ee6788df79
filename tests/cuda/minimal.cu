// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A program with a single collective. kernels.cpp counts its kernels, on which the time to compile it depends.
#include <span>

#include "tutti/cuda.cuh"
#include "tutti/tutti.hpp"

int main() {
  tutti::run_local(2, [](auto& comm) {
    tutti::cuda_device const gpu(comm.rank());
    tutti::cuda_ipc ranks(comm, gpu);
    std::span<float> const data = ranks.template allocate<float>(1000);
    tutti::all_reduce(ranks, data);
    ranks.work().wait();
  });
}
