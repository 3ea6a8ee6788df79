// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Definitions of device/cuda/waiting.cuh.
#pragma once

#include <chrono>
#include <cuda_runtime.h>

#include "tutti/core/error.hpp"
#include "tutti/core/text.hpp"
#include "tutti/core/wait.hpp"
#include "tutti/device/cuda/context.cuh"
#include "tutti/device/cuda/errors.cuh"
#include "tutti/device/cuda/waiting.cuh"

namespace tutti::detail {

TUTTI_CUDA_INLINE void wait_for_stream(int gpu, cudaStream_t stream, deadline until) {
  calls_during_captures const allowed;
  cudaError_t code = cudaErrorNotReady;
  auto const poll = [&] {
    code = cudaStreamQuery(stream);
    if (code != cudaErrorNotReady) return progress::done;
    static_cast<void>(cudaGetLastError());  // clears it, or the program's next call would seem to fail
    return progress::stuck;
  };
  bool const done = wait_until_done(poll, patience_sharing_cores, until, sleep_for(std::chrono::microseconds{50}));
  if (!done)
    throw error({.code = error_code::timeout,
                 .what = join({"the work on a stream of GPU ", gpu, " did not complete in time"}),
                 .way_out = "wait longer, or check with nvidia-smi what else runs on the GPU"});
  expect_cuda(code, "the work on a stream");
}

}  // namespace tutti::detail
