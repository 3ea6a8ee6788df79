// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Definitions of device/cuda/context.cuh.
#pragma once

#include <array>
#include <cstddef>
#include <cstring>
#include <cuda_runtime.h>
#include <map>
#include <mutex>
#include <vector>

#include "tutti/device/cuda/context.cuh"
#include "tutti/device/cuda/driver.cuh"
#include "tutti/device/cuda/errors.cuh"

namespace tutti::detail {

TUTTI_CUDA_INLINE current_device::current_device(int index) : before_(current_context()) {
  if (before_ != nullptr && device_of_current_context() == index) {
    before_ = nullptr;
    return;
  }
  expect_cuda(cudaSetDevice(index), "cudaSetDevice");
}

// The addresses of exposed memory, with their numbers of users.
struct exposed_memory {
  std::mutex guard;
  std::map<void*, int> users;

  static exposed_memory& of_process() {
    static auto* const out = new exposed_memory;
    return *out;
  }
};

TUTTI_CUDA_INLINE void* expose_memory(void* memory, std::size_t bytes) {
  calls_during_captures const allowed;
  exposed_memory& all = exposed_memory::of_process();
  std::lock_guard const lock(all.guard);
  int& users = all.users[memory];
  if (users == 0)
    expect_cuda(cudaHostRegister(memory, bytes, cudaHostRegisterPortable | cudaHostRegisterMapped), "cudaHostRegister");
  void* out = nullptr;
  cudaError_t const code = cudaHostGetDevicePointer(&out, memory, 0);
  if (code != cudaSuccess && users == 0) static_cast<void>(cudaHostUnregister(memory));
  expect_cuda(code, "cudaHostGetDevicePointer");
  ++users;
  return out;
}

TUTTI_CUDA_INLINE void hide_memory(void* memory) noexcept {
  calls_during_captures const allowed;
  exposed_memory& all = exposed_memory::of_process();
  std::lock_guard const lock(all.guard);
  if (--all.users[memory] == 0 && cudaHostUnregister(memory) != cudaSuccess) static_cast<void>(cudaGetLastError());
}

TUTTI_CUDA_INLINE std::vector<gpu_identity> const& identities_of_gpus() {
  static std::vector<gpu_identity> const all = [] {
    int count = 0;
    expect_cuda(cudaGetDeviceCount(&count), "cudaGetDeviceCount");
    std::vector<gpu_identity> out(static_cast<std::size_t>(count));
    for (int i = 0; i < count; ++i) {
      cudaDeviceProp about{};
      expect_cuda(cudaGetDeviceProperties(&about, i), "cudaGetDeviceProperties");
      static_assert(sizeof about.uuid == sizeof(gpu_identity));
      std::memcpy(&out[static_cast<std::size_t>(i)], &about.uuid, sizeof about.uuid);
    }
    return out;
  }();
  return all;
}

TUTTI_CUDA_INLINE gpu_identity identity_of_gpu(int index) {
  return identities_of_gpus().at(static_cast<std::size_t>(index));
}

}  // namespace tutti::detail
