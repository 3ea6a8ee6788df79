// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Errors of CUDA calls, with advice.
#pragma once

#include <cuda_runtime.h>

#include "tutti/core/text.hpp"

namespace tutti::detail {

// After such an error, every call of the process on the GPU fails; CUDA cannot recover.
constexpr bool sticky(cudaError_t code) {
  switch (code) {
    case cudaErrorIllegalAddress:
    case cudaErrorLaunchTimeout:
    case cudaErrorAssert:
    case cudaErrorHardwareStackError:
    case cudaErrorIllegalInstruction:
    case cudaErrorMisalignedAddress:
    case cudaErrorInvalidAddressSpace:
    case cudaErrorInvalidPc:
    case cudaErrorLaunchFailure:
    case cudaErrorECCUncorrectable: return true;
    default: return false;
  }
}

constexpr char const* way_out_of(cudaError_t code) {
  if (sticky(code))
    return "the error is sticky: every later call of this process on the GPU fails too; find the kernel with "
           "compute-sanitizer, and restart the program";
  switch (code) {
    case cudaErrorNoDevice:
    case cudaErrorInsufficientDriver:
    case cudaErrorInitializationError:
    case cudaErrorSystemDriverMismatch:
      return "install a driver for this version of CUDA (see nvidia-smi), or use collectives on host memory";
    case cudaErrorNoKernelImageForDevice:
      return "compile for this GPU, e.g. with nvcc -arch=native, or include PTX for later ones";
    case cudaErrorDevicesUnavailable:
      return "another process uses the GPU exclusively: allow sharing with nvidia-smi -c DEFAULT, or use another GPU";
    case cudaErrorMemoryAllocation: return "free GPU memory, or process smaller parts";
    default: return "look up this error in CUDA's documentation";
  }
}

[[gnu::cold, noreturn]] void throw_cuda(cudaError_t code, text_part const& call);

inline void expect_cuda(cudaError_t code, char const* call) {
  if (code == cudaSuccess) return;
  static_cast<void>(cudaGetLastError());  // clears the error, which the next call would report again
  throw_cuda(code, call);
}

}  // namespace tutti::detail

#if !defined(TUTTI_CUDA_COMPILED)
#include "tutti/device/cuda/errors_impl.cuh"
#endif
