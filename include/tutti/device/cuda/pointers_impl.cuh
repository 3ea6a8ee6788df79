// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Definitions of device/cuda/pointers.cuh.
#pragma once

#include <cuda.h>
#include <cuda_runtime.h>
#include <optional>
#include <span>

#include "tutti/core/error.hpp"
#include "tutti/core/text.hpp"
#include "tutti/device/cuda/context.cuh"
#include "tutti/device/cuda/driver.cuh"
#include "tutti/device/cuda/pointers.cuh"

namespace tutti::detail {

// False if the driver does not tell.
template <class Value>
bool read_pointer_attribute(Value& out, CUpointer_attribute which, void const* memory) {
  try {
    static auto* const call =
        find_driver_function<CUresult(void*, CUpointer_attribute, CUdeviceptr)>("cuPointerGetAttribute");
    return call(&out, which, reinterpret_cast<CUdeviceptr>(memory)) == CUDA_SUCCESS;
  } catch (error const&) {
    return false;
  }
}

// Memory of a pool, or that the program has mapped by itself, is accessible to the GPUs to which the program has opened it.
// All other memory of a GPU is accessible to those that reach it.
TUTTI_CUDA_INLINE std::optional<memory_objection> objection_to_opened(void const* memory, int owner, int gpu) {
  unsigned access = CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READWRITE;
  current_device const here(gpu);
  if (!read_pointer_attribute(access, CU_POINTER_ATTRIBUTE_ACCESS_FLAGS, memory) ||
      access != CU_POINTER_ATTRIBUTE_ACCESS_FLAG_NONE)
    return {};
  CUmemoryPool pool = nullptr;
  if (read_pointer_attribute(pool, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, memory) && pool != nullptr)
    return memory_objection{join({"is memory of a pool of GPU ", owner, ", to which GPU ", gpu, " has no access"}),
                            "open the pool to this GPU with cudaMemPoolSetAccess, or pass memory from cudaMalloc"};
  return memory_objection{join({"is memory mapped on GPU ", owner, ", to which GPU ", gpu, " has no access"}),
                          "open it to this GPU with cuMemSetAccess, or pass memory from cudaMalloc"};
}

TUTTI_CUDA_INLINE std::optional<memory_objection> objection_of_gpus(void const* memory, std::span<int const> users) {
  calls_during_captures const allowed;
  cudaPointerAttributes about{};
  if (cudaPointerGetAttributes(&about, memory) != cudaSuccess) {
    static_cast<void>(cudaGetLastError());
    return {};
  }
  if (about.type == cudaMemoryTypeUnregistered) {
    for (int const user : users) {
      int accessible = 1;
      if (cudaDeviceGetAttribute(&accessible, cudaDevAttrPageableMemoryAccess, user) != cudaSuccess)
        static_cast<void>(cudaGetLastError());
      else if (accessible == 0)
        return memory_objection{join({"is pageable host memory, which GPU ", user, " cannot access"}),
                                "pass device memory that has not been freed, or host memory from cudaMallocHost"};
    }
    return {};
  }
  if (about.type != cudaMemoryTypeDevice) return {};
  int const owner = about.device;
  if (users.size() == 1 && users[0] == owner) return {};
  bool owner_is_user = false;
  for (int const user : users) owner_is_user |= user == owner;
  if (!owner_is_user)
    return memory_objection{join({"is memory of GPU ", owner, ", which these ranks do not use"}),
                            join({"pass memory of GPU ", users[0]})};
  int from_malloc = 1;
  if (!read_pointer_attribute(from_malloc, CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE, memory) || from_malloc != 0)
    return {};
  for (int const user : users)
    if (user != owner)
      if (auto found = objection_to_opened(memory, owner, user)) return found;
  return {};
}

}  // namespace tutti::detail
