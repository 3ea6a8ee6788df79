// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// How many GPUs there are.
#pragma once

#include "tutti/core/config.hpp"

namespace tutti {

// The number of GPUs that this process sees; 0 if there is no driver.
int cuda_device_count();

}  // namespace tutti

#if !defined(TUTTI_CUDA_COMPILED)
#include "tutti/device/cuda/count_impl.cuh"
#endif
