// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Memory of a GPU that other GPUs and other processes access.
#pragma once

#include "tutti/core/config.hpp"
#include "tutti/device/model/device.hpp"

namespace tutti::detail {

// Throws unless GPU `gpu` can access memory of GPU `there`.
void expect_link(int gpu, int there);
// Enables peer access once, whichever caller asks first.
void enable_link(int gpu, int there);

device_memory_handle share_memory_of_gpu(int gpu, void* memory);
void* open_memory_of_gpu(int gpu, device_memory_handle const& handle);

}  // namespace tutti::detail

#if !defined(TUTTI_CUDA_COMPILED)
#include "tutti/device/cuda/sharing_impl.cuh"
#endif
