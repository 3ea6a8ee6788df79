// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// How many GPUs there are.
#pragma once

#include <cuda_runtime.h>

namespace tutti {

// The number of GPUs that this process sees; 0 if there is no driver.
inline int cuda_device_count() {
  int count = 0;
  if (cudaGetDeviceCount(&count) == cudaSuccess) return count;
  static_cast<void>(cudaGetLastError());
  return 0;
}

}  // namespace tutti
