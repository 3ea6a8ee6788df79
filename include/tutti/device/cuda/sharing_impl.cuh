// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Definitions of device/cuda/sharing.cuh.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <cuda_runtime.h>
#include <unistd.h>

#include "tutti/core/error.hpp"
#include "tutti/core/text.hpp"
#include "tutti/device/cuda/context.cuh"
#include "tutti/device/cuda/driver.cuh"
#include "tutti/device/cuda/errors.cuh"
#include "tutti/device/cuda/sharing.cuh"

namespace tutti::detail {

TUTTI_CUDA_INLINE void expect_link(int gpu, int there) {
  if (there == gpu) return;
  int reaches = 0;
  expect_cuda(cudaDeviceCanAccessPeer(&reaches, gpu, there), "cudaDeviceCanAccessPeer");
  if (reaches == 0)
    throw error({.code = error_code::system,
                 .what = join({"GPU ", gpu, " cannot read memory of GPU ", there,
                               ": the driver has no peer access between them"}),
                 .way_out = "see nvidia-smi topo -p2p r, or use tutti::cuda_staged"});
}

TUTTI_CUDA_INLINE void enable_link(int gpu, int there) {
  if (there == gpu) return;
  current_device const here(gpu);
  calls_during_captures const allowed;
  cudaError_t const code = cudaDeviceEnablePeerAccess(there, 0);
  if (code == cudaSuccess) return;
  static_cast<void>(cudaGetLastError());
  if (code == cudaErrorPeerAccessAlreadyEnabled) return;
  throw error({.code = error_code::system,
               .what = join({"GPU ", gpu, " cannot read memory of GPU ", there, ": ", cudaGetErrorString(code)}),
               .way_out = "see nvidia-smi topo -p2p r, or use tutti::cuda_staged"});
}

// Makes the memory of a handle accessible to a GPU, or throws. Returns whether this process sees the GPU of that memory. One that is
// hidden, as by CUDA_VISIBLE_DEVICES, may be within reach all the same; only opening the memory tells.
TUTTI_CUDA_INLINE bool expect_reach(int gpu, device_memory_handle const& handle) {
  auto const& all = identities_of_gpus();
  auto const found = std::find(all.begin(), all.end(), handle.owner);
  if (found == all.end()) return false;
  int const there = static_cast<int>(found - all.begin());
  expect_link(gpu, there);
  if (handle.process == ::getpid()) enable_link(gpu, there);
  return true;
}

TUTTI_CUDA_INLINE device_memory_handle share_memory_of_gpu(int gpu, void* memory) {
  current_device const here(gpu);
  calls_during_captures const allowed;
  device_memory_handle out{.owner = identity_of_gpu(gpu), .address = memory, .process = ::getpid()};
  void* const begin = begin_of_allocation(memory);
  out.offset = static_cast<std::size_t>(static_cast<std::byte*>(memory) - static_cast<std::byte*>(begin));
  cudaIpcMemHandle_t handle{};
  if (cudaError_t const code = cudaIpcGetMemHandle(&handle, begin); code != cudaSuccess) {
    static_cast<void>(cudaGetLastError());
    throw error({.code = error_code::system,
                 .what = join({"GPU ", gpu, " cannot share memory: ", cudaGetErrorString(code)}),
                 .way_out =
                     "share memory from cudaMalloc or allocate(), not that of pools (cudaMallocAsync) or mapped by "
                     "cuMemMap; or use tutti::cuda_staged"});
  }
  static_assert(sizeof handle == sizeof out.token);
  std::memcpy(out.token.data(), &handle, sizeof handle);
  return out;
}

TUTTI_CUDA_INLINE void* open_memory_of_gpu(int gpu, device_memory_handle const& handle) {
  current_device const here(gpu);
  calls_during_captures const allowed;
  bool const sees_gpu = expect_reach(gpu, handle);
  if (handle.process == ::getpid()) return handle.address;
  cudaIpcMemHandle_t token{};
  std::memcpy(&token, handle.token.data(), sizeof token);
  void* begin = nullptr;
  cudaError_t const code = cudaIpcOpenMemHandle(&begin, token, cudaIpcMemLazyEnablePeerAccess);
  if (code != cudaSuccess) {
    static_cast<void>(cudaGetLastError());
    throw error(
        {.code = error_code::system,
         .what = join({"memory of a GPU in process ", handle.process, " cannot be opened: ", cudaGetErrorString(code)}),
         .way_out = sees_gpu ? "let containers share the host's IPC namespace, or use tutti::cuda_staged"
                             : "its GPU is hidden from this process: choose GPUs with cuda_device(index) instead of "
                               "CUDA_VISIBLE_DEVICES, or use tutti::cuda_staged"});
  }
  return static_cast<std::byte*>(begin) + handle.offset;
}

}  // namespace tutti::detail
