// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Definitions of device/cuda/count.cuh.
#pragma once

#include <cuda_runtime.h>

#include "tutti/device/cuda/count.cuh"

namespace tutti {

TUTTI_CUDA_INLINE int cuda_device_count() {
  int count = 0;
  if (cudaGetDeviceCount(&count) == cudaSuccess) return count;
  static_cast<void>(cudaGetLastError());
  return 0;
}

}  // namespace tutti
