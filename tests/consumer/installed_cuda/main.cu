// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Four virtual ranks on a GPU, where there is one.
#include <cstdio>
#include <thrust/device_vector.h>
#include <vector>

#include "tutti/cuda.cuh"

int main() {
  if (tutti::cuda_device_count() == 0) {
    std::puts("there is no GPU");
    return 0;
  }
  tutti::cuda_device const gpu;
  tutti::cuda_local const ranks(gpu, 4);
  std::vector<thrust::device_vector<float>> gradients(4, thrust::device_vector<float>(1000, 2.0f));
  tutti::all_reduce(ranks, gradients, gradients, tutti::mean{});
  return gradients[3][999] == 2.0f ? 0 : 1;
}
