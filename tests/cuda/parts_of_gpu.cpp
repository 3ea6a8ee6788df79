// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Presents the first GPU as eight, each with an eighth of its multiprocessors, so that checks of ranks with a GPU each run on a machine
// with one GPU. Kernels of several threads run at once, because the parts share a context. Processes take turns, unless they share
// the GPU through MPS. What this cannot show is how links between GPUs order accesses.
//
// It wraps functions of the CUDA runtime: link this file and the program with the --wrap options of tools/gpu-check.
#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <cuda.h>
#include <cuda_runtime.h>
#include <map>
#include <mutex>
#include <string_view>

extern "C" {
cudaError_t __real_cudaGetDeviceCount(int*);
cudaError_t __real_cudaSetDevice(int);
cudaError_t __real_cudaGetDeviceProperties(cudaDeviceProp*, int);
cudaError_t __real_cudaDeviceGetAttribute(int*, cudaDeviceAttr, int);
cudaError_t __real_cudaMalloc(void**, std::size_t);
cudaError_t __real_cudaFree(void*);
cudaError_t __real_cudaPointerGetAttributes(cudaPointerAttributes*, void const*);
cudaError_t __real_cudaGetDriverEntryPointByVersion(char const*, void**, unsigned, unsigned long long,
                                                    cudaDriverEntryPointQueryResult*);
}

namespace {

constexpr int parts = 8;

thread_local int current = 0;  // the part that is current in this thread

// The functions of the driver by which the library remembers what is current. A context of a part is the address of its element.
char contexts[parts];
CUcontext the_context = nullptr;
CUresult (*real_get_current)(CUcontext*) = nullptr;
CUresult (*real_set_current)(CUcontext) = nullptr;

CUresult get_current(CUcontext* out) {
  CUresult const code = real_get_current(out);
  if (code != CUDA_SUCCESS || *out == nullptr) return code;
  the_context = *out;
  *out = reinterpret_cast<CUcontext>(&contexts[current]);
  return code;
}
CUresult set_current(CUcontext context) {
  current = static_cast<int>(reinterpret_cast<char*>(context) - contexts);
  return real_set_current(the_context);
}
CUresult device_of_current(CUdevice* out) {
  *out = current;
  return CUDA_SUCCESS;
}

// Which part has allocated what.
std::mutex guard;
std::map<std::byte*, std::pair<std::size_t, int>>& allocations() {
  static auto* const all = new std::map<std::byte*, std::pair<std::size_t, int>>;
  return *all;
}

}  // namespace

extern "C" {

cudaError_t __wrap_cudaGetDeviceCount(int* count) {
  cudaError_t const code = __real_cudaGetDeviceCount(count);
  if (code == cudaSuccess && *count > 0) *count = parts;
  return code;
}

cudaError_t __wrap_cudaSetDevice(int device) {
  cudaError_t const code = __real_cudaSetDevice(0);
  if (code == cudaSuccess) current = device;
  return code;
}

cudaError_t __wrap_cudaGetDeviceProperties(cudaDeviceProp* out, int device) {
  cudaError_t const code = __real_cudaGetDeviceProperties(out, 0);
  out->uuid.bytes[0] = static_cast<char>(out->uuid.bytes[0] + device);
  out->multiProcessorCount /= parts;
  return code;
}

cudaError_t __wrap_cudaDeviceGetAttribute(int* out, cudaDeviceAttr which, int) {
  cudaError_t const code = __real_cudaDeviceGetAttribute(out, which, 0);
  if (which == cudaDevAttrMultiProcessorCount) *out = std::max(*out / parts, 1);
  return code;
}

cudaError_t __wrap_cudaDeviceCanAccessPeer(int* out, int, int) {
  *out = 1;
  return cudaSuccess;
}
cudaError_t __wrap_cudaDeviceEnablePeerAccess(int, unsigned) { return cudaSuccess; }

cudaError_t __wrap_cudaMalloc(void** out, std::size_t bytes) {
  cudaError_t const code = __real_cudaMalloc(out, bytes);
  if (code != cudaSuccess) return code;
  std::lock_guard const lock(guard);
  allocations()[static_cast<std::byte*>(*out)] = {bytes, current};
  return code;
}
cudaError_t __wrap_cudaFree(void* memory) {
  {
    std::lock_guard const lock(guard);
    allocations().erase(static_cast<std::byte*>(memory));
  }
  return __real_cudaFree(memory);
}

cudaError_t __wrap_cudaPointerGetAttributes(cudaPointerAttributes* out, void const* memory) {
  cudaError_t const code = __real_cudaPointerGetAttributes(out, memory);
  if (code != cudaSuccess) return code;
  std::byte* const at = static_cast<std::byte*>(const_cast<void*>(memory));
  std::lock_guard const lock(guard);
  auto after = allocations().upper_bound(at);
  if (after == allocations().begin()) return code;
  auto const& [begin, about] = *--after;
  if (at < begin + about.first) out->device = about.second;
  return code;
}

// Cooperative launches may run one after the other. The kernels of the library do not use what else they offer.
cudaError_t __wrap_cudaLaunchCooperativeKernel(void const* kernel, dim3 blocks, dim3 threads, void** arguments,
                                               std::size_t shared, cudaStream_t stream) {
  return cudaLaunchKernel(kernel, blocks, threads, arguments, shared, stream);
}

cudaError_t __wrap_cudaGetDriverEntryPointByVersion(char const* name, void** out, unsigned version,
                                                    unsigned long long flags, cudaDriverEntryPointQueryResult* found) {
  cudaError_t const code = __real_cudaGetDriverEntryPointByVersion(name, out, version, flags, found);
  if (code != cudaSuccess || *found != cudaDriverEntryPointSuccess) return code;
  std::string_view const which = name;
  if (which == "cuCtxGetCurrent") {
    std::memcpy(&real_get_current, out, sizeof *out);
    *out = reinterpret_cast<void*>(&get_current);
  } else if (which == "cuCtxSetCurrent") {
    std::memcpy(&real_set_current, out, sizeof *out);
    *out = reinterpret_cast<void*>(&set_current);
  } else if (which == "cuCtxGetDevice") {
    *out = reinterpret_cast<void*>(&device_of_current);
  }
  return code;
}

}  // extern "C"
