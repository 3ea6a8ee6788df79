// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Definitions of device/cuda/runtime.cuh.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <cuda_runtime.h>
#include <optional>
#include <span>
#include <string>
#include <unistd.h>
#include <vector>

#include "tutti/core/error.hpp"
#include "tutti/core/text.hpp"
#include "tutti/device/cuda/context.cuh"
#include "tutti/device/cuda/errors.cuh"
#include "tutti/device/cuda/pointers.cuh"
#include "tutti/device/cuda/runtime.cuh"
#include "tutti/device/cuda/sharing.cuh"
#include "tutti/device/cuda/signals.cuh"
#include "tutti/device/cuda/together.cuh"
#include "tutti/device/cuda/waiting.cuh"

namespace tutti {

TUTTI_CUDA_INLINE cuda_device::cuda_device(int index) : index_{index} {
  int count = 0;
  detail::expect_cuda(cudaGetDeviceCount(&count), "cudaGetDeviceCount");
  if (index < 0 || index >= count)
    throw error(
        {.code = error_code::bad_argument,
         .what = detail::join({"there is no GPU number ", index, " among the ", count, " that this process sees"}),
         .way_out = "see nvidia-smi and CUDA_VISIBLE_DEVICES"});
  detail::expect_cuda(cudaDeviceGetAttribute(&processors_, cudaDevAttrMultiProcessorCount, index),
                      "cudaDeviceGetAttribute");
  detail::expect_cuda(cudaDeviceGetAttribute(&cache_bytes_, cudaDevAttrL2CacheSize, index), "cudaDeviceGetAttribute");
}

template <class Call>
void cuda_device::quietly(Call const& call) const noexcept {
  try {
    detail::current_device const here(index_);
    detail::calls_during_captures const allowed;
    if (call() != cudaSuccess) static_cast<void>(cudaGetLastError());
  } catch (...) {
  }
}

TUTTI_CUDA_INLINE int cuda_device::ptx_version(void const* kernel) const {
  detail::current_device const here(index_);
  cudaFuncAttributes about{};
  detail::expect_cuda(cudaFuncGetAttributes(&about, kernel), "cudaFuncGetAttributes");
  return about.ptxVersion;
}

TUTTI_CUDA_INLINE void* cuda_device::allocate(std::size_t bytes) const {
  detail::current_device const here(index_);
  detail::calls_during_captures const allowed;
  void* out = nullptr;
  cudaError_t const code = cudaMalloc(&out, std::max<std::size_t>(bytes, 1));
  if (code == cudaSuccess) return out;
  static_cast<void>(cudaGetLastError());
  std::size_t free = 0, total = 0;
  if (code != cudaErrorMemoryAllocation || cudaMemGetInfo(&free, &total) != cudaSuccess)
    detail::throw_cuda(code, "cudaMalloc");
  detail::throw_cuda(code, detail::join({"cudaMalloc of ", bytes, " bytes on GPU ", index_, ", where ", free, " of ",
                                         total, " are free,"}));
}

TUTTI_CUDA_INLINE void cuda_device::release(void* memory) const noexcept {
  quietly([&] { return cudaFree(memory); });
}

TUTTI_CUDA_INLINE void cuda_device::copy(stream_type stream, void* to, void const* from, std::size_t bytes) const {
  detail::current_device const here(index_);
  detail::expect_cuda(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream), "cudaMemcpyAsync");
}

TUTTI_CUDA_INLINE void cuda_device::wait(stream_type stream, detail::deadline until) const {
  while_current([&] { detail::wait_for_stream(index_, stream, until); });
}

TUTTI_CUDA_INLINE cuda_device::stream_type cuda_device::make_stream() const {
  detail::current_device const here(index_);
  stream_type out = nullptr;
  detail::expect_cuda(cudaStreamCreateWithFlags(&out, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
  return out;
}

TUTTI_CUDA_INLINE void cuda_device::end_stream(stream_type stream) const noexcept {
  quietly([&] { return cudaStreamDestroy(stream); });
}

TUTTI_CUDA_INLINE void* cuda_device::allocate_pinned(std::size_t bytes) const {
  detail::current_device const here(index_);
  detail::calls_during_captures const allowed;
  void* out = nullptr;
  cudaError_t const code = cudaHostAlloc(&out, std::max<std::size_t>(bytes, 1), cudaHostAllocPortable);
  if (code == cudaSuccess) return out;
  static_cast<void>(cudaGetLastError());
  detail::throw_cuda(code, detail::join({"cudaHostAlloc of ", bytes, " bytes"}));
}

TUTTI_CUDA_INLINE void cuda_device::release_pinned(void* memory) const noexcept {
  quietly([&] { return cudaFreeHost(memory); });
}

TUTTI_CUDA_INLINE void cuda_device::reach(cuda_device const& other) const {
  if (char const* const blocking = std::getenv("CUDA_LAUNCH_BLOCKING"); blocking != nullptr && *blocking == '1')
    throw error({.code = error_code::bad_argument,
                 .what = "CUDA_LAUNCH_BLOCKING=1 lets one kernel run at a time, but those of several GPUs wait for "
                         "each other",
                 .way_out = "unset it, or use one GPU"});
  detail::expect_link(index_, other.index_);
  detail::enable_link(index_, other.index_);
}

TUTTI_CUDA_INLINE cuda_device::event_type cuda_device::make_event() const {
  detail::current_device const here(index_);
  cudaEvent_t out = nullptr;
  detail::expect_cuda(cudaEventCreateWithFlags(&out, cudaEventDisableTiming), "cudaEventCreateWithFlags");
  return out;
}

TUTTI_CUDA_INLINE void cuda_device::drop(event_type event) const noexcept {
  quietly([&] { return cudaEventDestroy(event); });
}

TUTTI_CUDA_INLINE void cuda_device::record(event_type event, stream_type stream) const {
  while_current([&] { detail::expect_cuda(cudaEventRecord(event, stream), "cudaEventRecord"); });
}

TUTTI_CUDA_INLINE void cuda_device::follow(stream_type stream, event_type event) const {
  while_current([&] { detail::expect_cuda(cudaStreamWaitEvent(stream, event, 0), "cudaStreamWaitEvent"); });
}

TUTTI_CUDA_INLINE bool cuda_device::reached(event_type event) const {
  detail::current_device const here(index_);
  detail::calls_during_captures const allowed;
  cudaError_t const code = cudaEventQuery(event);
  if (code != cudaErrorNotReady) {
    detail::expect_cuda(code, "the work before an event");
    return true;
  }
  static_cast<void>(cudaGetLastError());
  return false;
}

TUTTI_CUDA_INLINE bool cuda_device::capturing(stream_type stream) const {
  detail::current_device const here(index_);
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  cudaError_t const code = cudaStreamIsCapturing(stream, &status);
  // Of the default stream, while another that it would wait for is captured.
  bool const would_spoil = code == cudaErrorStreamCaptureImplicit;
  if (would_spoil) static_cast<void>(cudaGetLastError());
  else detail::expect_cuda(code, "cudaStreamIsCapturing");
  return would_spoil || status != cudaStreamCaptureStatusNone;
}

TUTTI_CUDA_INLINE void cuda_device::close(detail::device_memory_handle const& handle, void* memory) const noexcept {
  if (handle.process != ::getpid())
    quietly([&] { return cudaIpcCloseMemHandle(static_cast<std::byte*>(memory) - handle.offset); });
}

TUTTI_CUDA_INLINE void* cuda_device::expose(void* memory, std::size_t bytes) const {
  return while_current([&] { return detail::expose_memory(memory, bytes); });
}

TUTTI_CUDA_INLINE void cuda_device::signal(stream_type stream, std::span<detail::stream_signal const> signals) const {
  while_current([&] { detail::signal_stream(stream, signals); });
}

TUTTI_CUDA_INLINE std::string cuda_device::text() const {
  cudaDeviceProp about{};
  detail::expect_cuda(cudaGetDeviceProperties(&about, index_), "cudaGetDeviceProperties");
  return detail::join({"GPU ", index_, " (", about.name, ")"});
}

TUTTI_CUDA_INLINE void cuda_device::launch_kernel_together(stream_type stream, int blocks, void const* kernel,
                                                           void** arguments) const {
  detail::current_device const here(index_);
  constexpr int threads = detail::block_threads;
  if (int const most = detail::blocks_of_gpu_at_once(index_, processors_, kernel, threads); blocks > most)
    refuse_blocks(blocks, most);
  detail::launch_blocks_together(stream, kernel, blocks, threads, arguments);
}

TUTTI_CUDA_INLINE void cuda_device::refuse_blocks(int blocks, int most) const {
  throw error({.code = error_code::bad_argument,
               .what = detail::join({blocks, " blocks cannot run at once on GPU ", index_, ", which runs ", most}),
               .way_out = most > 0 ? "ask for fewer ranks" : "leave the algorithm automatic on this GPU"});
}

TUTTI_CUDA_INLINE std::optional<detail::memory_objection> cuda_device::objection_to(
    void const* memory, std::span<cuda_device const* const> users) const {
  std::vector<int> gpus;
  for (cuda_device const* const user : users) gpus.push_back(user->index());
  return detail::objection_of_gpus(memory, gpus);
}

TUTTI_CUDA_INLINE void cuda_device::hide(void* memory) const noexcept { detail::hide_memory(memory); }

TUTTI_CUDA_INLINE void cuda_device::launch_kernel(stream_type stream, std::size_t items, std::size_t most,
                                                  void const* kernel, void** arguments) const {
  detail::current_device const here(index_);
  constexpr std::size_t threads = detail::block_threads;
  std::size_t const blocks = std::clamp<std::size_t>((items + threads - 1) / threads, 1, most);
  detail::expect_cuda(cudaLaunchKernel(kernel, dim3(static_cast<unsigned>(blocks)),
                                       dim3(static_cast<unsigned>(threads)), arguments, 0, stream),
                      "a kernel's launch");
}

}  // namespace tutti
