// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Definitions of device/cuda/errors.cuh.
#pragma once

#include <cuda_runtime.h>

#include "tutti/core/error.hpp"
#include "tutti/core/text.hpp"
#include "tutti/device/cuda/errors.cuh"

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

TUTTI_CUDA_INLINE char const* way_out_of(cudaError_t code) {
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

TUTTI_CUDA_INLINE void throw_cuda(cudaError_t code, text_part const& call) {
  throw error({.code = error_code::system,
               .what = join({call.view(), " failed: ", cudaGetErrorString(code), " (", cudaGetErrorName(code), ")"}),
               .way_out = way_out_of(code)});
}

}  // namespace tutti::detail
