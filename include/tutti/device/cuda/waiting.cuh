// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Waiting for streams, never past a deadline.
#pragma once

#include <cuda_runtime.h>

#include "tutti/core/wait.hpp"

namespace tutti::detail {

// While the GPU is current. Throws error: system, also for a fault of a kernel on any stream; timeout.
void wait_for_stream(int gpu, cudaStream_t stream, deadline until);

}  // namespace tutti::detail

#if !defined(TUTTI_CUDA_COMPILED)
#include "tutti/device/cuda/waiting_impl.cuh"
#endif
