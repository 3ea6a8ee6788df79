// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// NVTX ranges around every call, for NVIDIA's profilers: part of cuda.cuh. A program that is not compiled by nvcc
// includes this header in one of its sources, with the toolkit's include folder; it links only -ldl.
#pragma once

#include "tutti/core/config.hpp"

namespace tutti::detail {

// A profiler registers with NVTX before the program begins. Without one, no range is described.
bool listen_with_nvtx() noexcept;
inline bool const nvtx_listens = listen_with_nvtx();

}  // namespace tutti::detail

#if !defined(TUTTI_CUDA_COMPILED)
#include "tutti/device/cuda/nvtx_impl.cuh"
#endif
