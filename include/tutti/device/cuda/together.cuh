// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Launches of kernels whose blocks all run at once.
#pragma once

#include <cuda_runtime.h>

#include "tutti/core/config.hpp"

namespace tutti::detail {

// How many blocks of a kernel run at once on the current GPU, whose number is `index`; 0 if it has no cooperative launches.
int blocks_of_gpu_at_once(int index, int processors, void const* kernel, int threads);

void launch_blocks_together(cudaStream_t stream, void const* kernel, int blocks, int threads, void** arguments);

}  // namespace tutti::detail

#if !defined(TUTTI_CUDA_COMPILED)
#include "tutti/device/cuda/together_impl.cuh"
#endif
