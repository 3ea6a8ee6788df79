// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Definitions of device/cuda/driver.cuh.
#pragma once

#include <cstddef>
#include <cuda.h>
#include <cuda_runtime.h>

#include "tutti/core/error.hpp"
#include "tutti/core/text.hpp"
#include "tutti/device/cuda/driver.cuh"
#include "tutti/device/cuda/errors.cuh"

namespace tutti::detail {

TUTTI_CUDA_INLINE void* find_in_driver(char const* name, [[maybe_unused]] unsigned version) {
  void* out = nullptr;
  cudaDriverEntryPointQueryResult found{};
#if CUDART_VERSION >= 12050
  cudaError_t const code = cudaGetDriverEntryPointByVersion(name, &out, version, cudaEnableDefault, &found);
#else
  cudaError_t const code = cudaGetDriverEntryPoint(name, &out, cudaEnableDefault, &found);
#endif
  if (code == cudaSuccess && found == cudaDriverEntryPointSuccess) return out;
  if (code != cudaSuccess) static_cast<void>(cudaGetLastError());
  throw error({.code = error_code::system,
               .what = join({"the CUDA driver does not have ", name}),
               .way_out = "install a driver for CUDA 12 or later, or use tutti::cuda_staged"});
}

TUTTI_CUDA_INLINE char const* name_of_driver_error(CUresult code) {
  static auto* const call = find_driver_function<CUresult(CUresult, char const**)>("cuGetErrorName");
  char const* out = nullptr;
  return call(code, &out) == CUDA_SUCCESS && out != nullptr ? out : "unnamed error";
}
// The runtime uses the driver's error codes, so the same advice applies.
TUTTI_CUDA_INLINE void expect_driver(CUresult code, char const* call) {
  if (code == CUDA_SUCCESS) return;
  throw error({.code = error_code::system,
               .what = join({call, " failed: ", name_of_driver_error(code), " (", static_cast<int>(code), ")"}),
               .way_out = way_out_of(static_cast<cudaError_t>(code))});
}

TUTTI_CUDA_INLINE void stream_batch_mem_op(cudaStream_t stream, unsigned count, CUstreamBatchMemOpParams* operations) {
  static auto* const call =
      find_driver_function<CUresult(CUstream, unsigned, CUstreamBatchMemOpParams*, unsigned)>("cuStreamBatchMemOp");
  expect_driver(call(stream, count, operations, 0), "cuStreamBatchMemOp");
}

TUTTI_CUDA_INLINE CUcontext current_context() {
  static auto* const call = find_driver_function<CUresult(CUcontext*)>("cuCtxGetCurrent");
  CUcontext out = nullptr;
  if (CUresult const code = call(&out); code != CUDA_ERROR_NOT_INITIALIZED) expect_driver(code, "cuCtxGetCurrent");
  return out;
}

TUTTI_CUDA_INLINE int device_of_current_context() {
  static auto* const call = find_driver_function<CUresult(CUdevice*)>("cuCtxGetDevice");
  CUdevice out = 0;
  expect_driver(call(&out), "cuCtxGetDevice");
  return out;
}

TUTTI_CUDA_INLINE void make_current(CUcontext context) noexcept {
  static auto* const call = find_driver_function<CUresult(CUcontext)>("cuCtxSetCurrent");
  static_cast<void>(call(context));
}

TUTTI_CUDA_INLINE void* begin_of_allocation(void* memory) {
  static auto* const call =
      find_driver_function<CUresult(CUdeviceptr*, std::size_t*, CUdeviceptr)>("cuMemGetAddressRange");
  CUdeviceptr base = 0;
  expect_driver(call(&base, nullptr, reinterpret_cast<CUdeviceptr>(memory)), "cuMemGetAddressRange");
  return reinterpret_cast<void*>(base);
}

}  // namespace tutti::detail
