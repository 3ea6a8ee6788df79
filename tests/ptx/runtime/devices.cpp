// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Errors and GPUs.
#include <cstdio>
#include <cstring>
#include <set>
#include <tuple>
#include <utility>

#include "ptx/runtime/runtime.hpp"

using namespace tutti::testing::cuda;

extern "C" {

// -- Errors.

cudaError_t cudaGetLastError() {
  cudaError_t const last = std::exchange(last_error, cudaSuccess);
  return last != cudaSuccess ? last : runtime::instance().sticky();
}
cudaError_t cudaPeekAtLastError() {
  cudaError_t const sticky = runtime::instance().sticky();
  return sticky != cudaSuccess ? sticky : last_error;
}
char const* cudaGetErrorName(cudaError_t code) {
  switch (code) {
    case cudaSuccess: return "cudaSuccess";
    case cudaErrorNotReady: return "cudaErrorNotReady";
    case cudaErrorInvalidValue: return "cudaErrorInvalidValue";
    case cudaErrorIllegalAddress: return "cudaErrorIllegalAddress";
    case cudaErrorMisalignedAddress: return "cudaErrorMisalignedAddress";
    case cudaErrorLaunchFailure: return "cudaErrorLaunchFailure";
    case cudaErrorIllegalInstruction: return "cudaErrorIllegalInstruction";
    case cudaErrorLaunchTimeout: return "cudaErrorLaunchTimeout";
    case cudaErrorInvalidPtx: return "cudaErrorInvalidPtx";
    case cudaErrorStreamCaptureUnsupported: return "cudaErrorStreamCaptureUnsupported";
    case cudaErrorStreamCaptureInvalidated: return "cudaErrorStreamCaptureInvalidated";
    default: return "another error of CUDA";
  }
}
char const* cudaGetErrorString(cudaError_t code) { return cudaGetErrorName(code); }

// -- Devices.

cudaError_t cudaGetDeviceCount(int* out) {
  *out = runtime::instance().gpus();
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int gpu) {
  if (gpu < 0 || gpu >= runtime::instance().gpus()) return note(cudaErrorInvalidDevice);
  current_gpu = gpu;
  has_context = true;
  return cudaSuccess;
}
cudaError_t cudaGetDevice(int* out) {
  *out = current_gpu;
  return cudaSuccess;
}
cudaError_t cudaDeviceGetAttribute(int* out, cudaDeviceAttr which, int) {
  switch (which) {
    case cudaDevAttrMultiProcessorCount:
      *out = runtime::instance().machine().size().multiprocessors;
      return cudaSuccess;
    case cudaDevAttrCooperativeLaunch: *out = 1; return cudaSuccess;
    case cudaDevAttrPageableMemoryAccess: *out = 0; return cudaSuccess;
    case cudaDevAttrL2CacheSize: *out = 16 << 10; return cudaSuccess;  // some arrays of the tests exceed it
    default: return note(cudaErrorNotSupported);
  }
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* out, int gpu) {
  std::memset(out, 0, sizeof *out);
  std::snprintf(out->name, sizeof out->name, "PTX machine");
  std::memset(&out->uuid, 0x50 + gpu, sizeof out->uuid);
  out->multiProcessorCount = runtime::instance().machine().size().multiprocessors;
  return cudaSuccess;
}
cudaError_t cudaDeviceCanAccessPeer(int* out, int, int) {
  *out = 1;
  return cudaSuccess;
}
cudaError_t cudaDeviceEnablePeerAccess(int, unsigned) { return cudaSuccess; }
cudaError_t cudaDeviceSynchronize() { return note(runtime::instance().wait_for_gpu(current_gpu)); }
// Refuses a second question about a kernel, GPU and number of threads: a process that asks again wastes time at each launch.
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* out, void const* kernel, int threads, std::size_t) {
  static std::set<std::tuple<void const*, int, int>> asked;
  auto const held = lock();
  if (!asked.emplace(kernel, current_gpu, threads).second) return note(cudaErrorNotPermitted);
  *out = runtime::instance().machine().size().blocks_each;
  return cudaSuccess;
}
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* out, void const* kernel, int threads,
                                                                   std::size_t dynamic, unsigned) {
  return cudaOccupancyMaxActiveBlocksPerMultiprocessor(out, kernel, threads, dynamic);
}

}  // extern "C"
