// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Definitions of device/cuda/devices.cuh.
#pragma once

#include <cuda_runtime.h>
#include <vector>

#include "tutti/core/error.hpp"
#include "tutti/device/cuda/count.cuh"
#include "tutti/device/cuda/devices.cuh"
#include "tutti/device/cuda/errors.cuh"

namespace tutti {

TUTTI_CUDA_INLINE cuda_device cuda_device_of(int local_rank) {
  int count = 0;
  detail::expect_cuda(cudaGetDeviceCount(&count), "cudaGetDeviceCount");
  if (count == 0)
    throw error({.code = error_code::system,
                 .what = "this process sees no GPU",
                 .way_out = "see nvidia-smi and CUDA_VISIBLE_DEVICES"});
  return cuda_device(local_rank % count);
}

TUTTI_CUDA_INLINE std::vector<cuda_device> cuda_devices() {
  std::vector<cuda_device> out;
  for (int i = 0; i < cuda_device_count(); ++i) out.emplace_back(i);
  return out;
}

}  // namespace tutti
