// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The GPUs that this process sees, and which of them a rank uses.
#pragma once

// First in tutti/cuda.cuh, so a compiler that cannot compile its kernels prints this line alone.
#if !defined(__CUDACC__)
#include <only nvcc compiles sources that include tutti/cuda.cuh: call the functions in them from this source>
#endif

#include <cuda_runtime.h>
#include <vector>

#include "tutti/core/error.hpp"
#include "tutti/device/cuda/count.cuh"
#include "tutti/device/cuda/errors.cuh"
#include "tutti/device/cuda/runtime.cuh"

namespace tutti {

// The GPU of a rank, by its number among the ranks of its node, which take turns on the GPUs that this process sees. Throws error:
// system, if there is none.
//
//   tutti::cuda_device gpu = tutti::cuda_device_of(comm.local_rank());
inline cuda_device cuda_device_of(int local_rank) {
  int count = 0;
  detail::expect_cuda(cudaGetDeviceCount(&count), "cudaGetDeviceCount");
  if (count == 0)
    throw error({.code = error_code::system,
                 .what = "this process sees no GPU",
                 .way_out = "see nvidia-smi and CUDA_VISIBLE_DEVICES"});
  return cuda_device(local_rank % count);
}

// All GPUs that this process sees.
inline std::vector<cuda_device> cuda_devices() {
  std::vector<cuda_device> out;
  for (int i = 0; i < cuda_device_count(); ++i) out.emplace_back(i);
  return out;
}

}  // namespace tutti
