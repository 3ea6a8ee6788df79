// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The GPUs that this process sees, and which of them a rank uses.
#pragma once

// First in tutti/cuda.cuh, so a compiler that cannot compile its kernels prints this line alone.
#if !defined(__CUDACC__)
#include <only nvcc compiles sources that include tutti/cuda.cuh: call the functions in them from this source>
#endif

#include <vector>

#include "tutti/device/cuda/count.cuh"
#include "tutti/device/cuda/runtime.cuh"

namespace tutti {

// The GPU of a rank, by its number among the ranks of its node, which take turns on the GPUs that this process sees. Throws error:
// system, if there is none.
//
//   tutti::cuda_device gpu = tutti::cuda_device_of(comm.local_rank());
cuda_device cuda_device_of(int local_rank);

// All GPUs that this process sees.
std::vector<cuda_device> cuda_devices();

}  // namespace tutti

#if !defined(TUTTI_CUDA_COMPILED)
#include "tutti/device/cuda/devices_impl.cuh"
#endif
