// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Definitions of device/cuda/together.cuh.
#pragma once

#include <cuda_runtime.h>

#include "tutti/device/cuda/errors.cuh"
#include "tutti/device/cuda/together.cuh"
#include "tutti/device/model/known_blocks.hpp"

namespace tutti::detail {

TUTTI_CUDA_INLINE int blocks_of_gpu_at_once(int index, int processors, void const* kernel, int threads) {
  static auto& known = *new known_blocks;
  return known.find(kernel, index, threads, [&] {
    int possible = 0, each = 0;
    expect_cuda(cudaDeviceGetAttribute(&possible, cudaDevAttrCooperativeLaunch, index), "cudaDeviceGetAttribute");
    if (possible == 0) return 0;
    expect_cuda(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&each, kernel, threads, 0),
                "cudaOccupancyMaxActiveBlocksPerMultiprocessor");
    return each * processors;
  });
}

TUTTI_CUDA_INLINE void launch_blocks_together(cudaStream_t stream, void const* kernel, int blocks, int threads,
                                              void** arguments) {
  expect_cuda(cudaLaunchCooperativeKernel(kernel, dim3(static_cast<unsigned>(blocks)),
                                          dim3(static_cast<unsigned>(threads)), arguments, 0, stream),
              "a cooperative kernel's launch");
}

}  // namespace tutti::detail
