// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Definitions of device/cuda/errors.cuh.
#pragma once

#include <cuda_runtime.h>

#include "tutti/core/error.hpp"
#include "tutti/core/text.hpp"
#include "tutti/device/cuda/errors.cuh"

namespace tutti::detail {

TUTTI_CUDA_INLINE void throw_cuda(cudaError_t code, text_part const& call) {
  throw error({.code = error_code::system,
               .what = join({call.view(), " failed: ", cudaGetErrorString(code), " (", cudaGetErrorName(code), ")"}),
               .way_out = way_out_of(code)});
}

}  // namespace tutti::detail
