// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Errors of CUDA calls, with advice.
#pragma once

#include <cuda_runtime.h>

#include "tutti/core/error.hpp"
#include "tutti/core/text.hpp"

namespace tutti::detail {

[[gnu::cold, noreturn]] void throw_cuda(cudaError_t code, text_part const& call);
[[gnu::cold]] char const* way_out_of(cudaError_t code);

inline void expect_cuda(cudaError_t code, char const* call) {
  if (code == cudaSuccess) return;
  static_cast<void>(cudaGetLastError());  // clears the error, which the next call would report again
  throw_cuda(code, call);
}

}  // namespace tutti::detail

#if !defined(TUTTI_CUDA_COMPILED)
#include "tutti/device/cuda/errors_impl.cuh"
#endif
