// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Functions of the CUDA driver, looked up at run time: a program that linked them would not start on a machine without
// a driver.
#pragma once

#include <cstddef>
#include <cuda.h>
#include <cuda_runtime.h>

#include "tutti/core/config.hpp"

namespace tutti::detail {

// Looks up the version that CUDA 12.0 declares, or a later one. Throws error: system, if the driver does not have it.
[[gnu::cold]] void* find_in_driver(char const* name, unsigned version);
template <class Function>
Function* find_driver_function(char const* name, unsigned version = 12000) {
  return reinterpret_cast<Function*>(find_in_driver(name, version));
}

void expect_driver(CUresult code, char const* call);

void stream_batch_mem_op(cudaStream_t stream, unsigned count, CUstreamBatchMemOpParams* operations);

// The context of this thread, or null. None of these functions creates one.
CUcontext current_context();
int device_of_current_context();
void make_current(CUcontext context) noexcept;

// The start of an allocation.
void* begin_of_allocation(void* memory);

}  // namespace tutti::detail

#if !defined(TUTTI_CUDA_COMPILED)
#include "tutti/device/cuda/driver_impl.cuh"
#endif
