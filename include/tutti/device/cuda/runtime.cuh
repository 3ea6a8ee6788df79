// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A GPU through the CUDA runtime; every call is checked. No launch waits for the device. `wait` does, until a deadline;
// CUDA itself does when memory is freed, or copied to or from pageable host memory. A program built with this header
// runs on machines without a GPU or driver, as long as it creates no cuda_device.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cuda_runtime.h>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unistd.h>

#include "tutti/core/error.hpp"
#include "tutti/core/text.hpp"
#include "tutti/core/wait.hpp"
#include "tutti/device/cuda/context.cuh"
#include "tutti/device/cuda/count.cuh"
#include "tutti/device/cuda/errors.cuh"
#include "tutti/device/cuda/kernels.cuh"
#include "tutti/device/cuda/pointers.cuh"
#include "tutti/device/cuda/sharing.cuh"
#include "tutti/device/cuda/signals.cuh"
#include "tutti/device/cuda/team_memory.cuh"
#include "tutti/device/cuda/together.cuh"
#include "tutti/device/cuda/waiting.cuh"
#include "tutti/device/model/device.hpp"
#include "tutti/device/model/staging_device.hpp"

namespace tutti {

// One GPU. A model of `device`. Streams are those of the program, or null for the default stream.
class cuda_device {
 public:
  using stream_type = cudaStream_t;
  static constexpr bool streams_share_queues = true;  // eight by default: CUDA_DEVICE_MAX_CONNECTIONS

  // Throws error: bad_argument, if there is no such GPU; system, if CUDA cannot be used.
  explicit cuda_device(int index = 0) : index_{index} {
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

  int index() const { return index_; }
  bool same_as(cuda_device const& other) const { return index_ == other.index_; }
  void* lend(stream_type stream) const { return stream; }  // to other libraries
  auto while_current(auto const& f) const {
    detail::current_device const here(index_);
    return f();
  }

  void* allocate(std::size_t bytes) const {
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
  void release(void* memory) const noexcept {
    quietly([&] { return cudaFree(memory); });
  }

  void copy(stream_type stream, void* to, void const* from, std::size_t bytes) const {
    detail::current_device const here(index_);
    detail::expect_cuda(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream), "cudaMemcpyAsync");
  }

  template <class Work>
  void launch(stream_type stream, std::size_t items, Work const& work) const {
    void* arguments[] = {const_cast<Work*>(&work)};
    std::size_t threads = items, most = some_blocks();
    // Arrays that do not fit the cache are fastest with a thread for all that it handles at once: multiprocessors that are faster
    // than others then take more blocks. Measured on an H100.
    if constexpr (detail::tiled_work<Work>)
      if (items * 16 > cache_bytes()) threads = items / Work::turns, most = most_blocks;
    launch_kernel(stream, threads, most, reinterpret_cast<void const*>(&detail::run_work<Work>), arguments);
  }

  int multiprocessors() const { return processors_; }
  std::size_t cache_bytes() const { return static_cast<std::size_t>(cache_bytes_); }
  template <class Work>
  int blocks_at_once() const {
    detail::current_device const here(index_);
    return detail::blocks_of_gpu_at_once(index_, processors_, together<Work>(), detail::block_threads);
  }
  template <class Work>
  void launch_together(stream_type stream, int blocks, Work const& work) const {
    void* arguments[] = {const_cast<Work*>(&work)};
    launch_kernel_together(stream, blocks, together<Work>(), arguments);
  }

  // Throws error: system, also for a fault of a kernel on any stream; timeout.
  void wait(stream_type stream, detail::deadline until) const {
    while_current([&] { detail::wait_for_stream(index_, stream, until); });
  }

  // -- Streams that do not wait for the default stream, and pinned host memory.
  stream_type make_stream() const {
    detail::current_device const here(index_);
    stream_type out = nullptr;
    detail::expect_cuda(cudaStreamCreateWithFlags(&out, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
    return out;
  }
  void end_stream(stream_type stream) const noexcept {
    quietly([&] { return cudaStreamDestroy(stream); });
  }
  void* allocate_pinned(std::size_t bytes) const {
    detail::current_device const here(index_);
    detail::calls_during_captures const allowed;
    void* out = nullptr;
    cudaError_t const code = cudaHostAlloc(&out, std::max<std::size_t>(bytes, 1), cudaHostAllocPortable);
    if (code == cudaSuccess) return out;
    static_cast<void>(cudaGetLastError());
    detail::throw_cuda(code, detail::join({"cudaHostAlloc of ", bytes, " bytes"}));
  }
  void release_pinned(void* memory) const noexcept {
    quietly([&] { return cudaFreeHost(memory); });
  }

  // -- Memory of the program.
  std::optional<detail::memory_objection> objection_to(void const* memory,
                                                       std::span<cuda_device const* const> users) const {
    return detail::objection_of_gpus(memory, users);
  }

  // -- Other GPUs of this process.
  void reach(cuda_device const& other) const {
    if (char const* const blocking = std::getenv("CUDA_LAUNCH_BLOCKING"); blocking != nullptr && *blocking == '1')
      throw error({.code = error_code::bad_argument,
                   .what = "CUDA_LAUNCH_BLOCKING=1 lets one kernel run at a time, but those of several GPUs wait for "
                           "each other",
                   .way_out = "unset it, or use one GPU"});
    detail::expect_link(index_, other.index_);
    detail::enable_link(index_, other.index_);
  }

  // -- Events.
  using event_type = cudaEvent_t;

  event_type make_event() const {
    detail::current_device const here(index_);
    cudaEvent_t out = nullptr;
    detail::expect_cuda(cudaEventCreateWithFlags(&out, cudaEventDisableTiming), "cudaEventCreateWithFlags");
    return out;
  }
  void drop(event_type event) const noexcept {
    quietly([&] { return cudaEventDestroy(event); });
  }
  void record(event_type event, stream_type stream) const {
    while_current([&] { detail::expect_cuda(cudaEventRecord(event, stream), "cudaEventRecord"); });
  }
  void follow(stream_type stream, event_type event) const {
    while_current([&] { detail::expect_cuda(cudaStreamWaitEvent(stream, event, 0), "cudaStreamWaitEvent"); });
  }
  bool reached(event_type event) const {
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
  bool capturing(stream_type stream) const {
    detail::current_device const here(index_);
    cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    cudaError_t const code = cudaStreamIsCapturing(stream, &status);
    // Of the default stream, while another that it would wait for is captured.
    bool const would_spoil = code == cudaErrorStreamCaptureImplicit;
    if (would_spoil) static_cast<void>(cudaGetLastError());
    else detail::expect_cuda(code, "cudaStreamIsCapturing");
    return would_spoil || status != cudaStreamCaptureStatusNone;
  }

  // -- Memory that processes share, and streams that wait for words.
  detail::device_memory_handle share(void* memory) const { return detail::share_memory_of_gpu(index_, memory); }
  void* open(detail::device_memory_handle const& handle) const { return detail::open_memory_of_gpu(index_, handle); }
  void close(detail::device_memory_handle const& handle, void* memory) const noexcept {
    if (handle.process != ::getpid())
      quietly([&] { return cudaIpcCloseMemHandle(static_cast<std::byte*>(memory) - handle.offset); });
  }
  void* expose(void* memory, std::size_t bytes) const {
    return while_current([&] { return detail::exposed_memory::add(memory, bytes); });
  }
  void hide(void* memory) const noexcept { detail::exposed_memory::remove(memory); }

#if CUDA_VERSION >= 12010
  // -- Memory that the NVLink switch combines.
  auto make_team_memory(int rank, int ranks, std::size_t bytes) const {
    return std::make_shared<detail::cuda_team_memory>(index_, rank, ranks, bytes);
  }
  // Its instructions exist since compute capability 9.0, also in PTX that the driver compiles.
  template <class Work>
  bool compiled_for_teams() const {
    detail::current_device const here(index_);
    cudaFuncAttributes about{};
    detail::expect_cuda(cudaFuncGetAttributes(&about, together<Work>()), "cudaFuncGetAttributes");
    return about.ptxVersion >= 90;
  }
#endif

  void signal(stream_type stream, std::span<detail::stream_signal const> signals) const {
    while_current([&] { detail::signal_stream(stream, signals); });
  }
  template <class Work>
  void launch_unless(stream_type stream, std::uint32_t const* unless, std::size_t items, Work const& work) const {
    void* arguments[] = {const_cast<Work*>(&work), &unless};
    launch_kernel(stream, items, some_blocks(), reinterpret_cast<void const*>(&detail::run_work_unless<Work>),
                  arguments);
  }
  std::string text() const {
    cudaDeviceProp about{};
    detail::expect_cuda(cudaGetDeviceProperties(&about, index_), "cudaGetDeviceProperties");
    return detail::join({"GPU ", index_, " (", about.name, ")"});
  }

 private:
  // Calls a function whose failure cannot be handled, and does not leave the error to the program's cudaGetLastError.
  template <class Call>
  void quietly(Call const& call) const noexcept {
    try {
      detail::current_device const here(index_);
      detail::calls_during_captures const allowed;
      if (call() != cudaSuccess) static_cast<void>(cudaGetLastError());
    } catch (...) {
    }
  }

  // A thread for each item, in at most so many blocks.
  static constexpr std::size_t most_blocks = std::size_t{1} << 22;
  std::size_t some_blocks() const { return static_cast<std::size_t>(processors_) * detail::min_blocks; }
  void launch_kernel(stream_type stream, std::size_t items, std::size_t most, void const* kernel,
                     void** arguments) const {
    detail::current_device const here(index_);
    constexpr std::size_t threads = detail::block_threads;
    std::size_t const blocks = std::clamp<std::size_t>((items + threads - 1) / threads, 1, most);
    detail::expect_cuda(cudaLaunchKernel(kernel, dim3(static_cast<unsigned>(blocks)),
                                         dim3(static_cast<unsigned>(threads)), arguments, 0, stream),
                        "a kernel's launch");
  }

  template <class Work>
  static void const* together() {
    return reinterpret_cast<void const*>(&detail::run_together<Work>);
  }
  void launch_kernel_together(stream_type stream, int blocks, void const* kernel, void** arguments) const {
    detail::current_device const here(index_);
    constexpr int threads = detail::block_threads;
    if (int const most = detail::blocks_of_gpu_at_once(index_, processors_, kernel, threads); blocks > most)
      refuse_blocks(blocks, most);
    detail::launch_blocks_together(stream, kernel, blocks, threads, arguments);
  }
  [[gnu::cold, noreturn]] void refuse_blocks(int blocks, int most) const {
    throw error({.code = error_code::bad_argument,
                 .what = detail::join({blocks, " blocks cannot run at once on GPU ", index_, ", which runs ", most}),
                 .way_out = most > 0 ? "ask for fewer ranks" : "leave the algorithm automatic on this GPU"});
  }

  int index_;
  int processors_ = 0, cache_bytes_ = 0;
};
static_assert(detail::cooperative_device<cuda_device> && detail::linked_device<cuda_device> &&
              detail::sharing_device<cuda_device> && detail::staging_device<cuda_device> &&
              detail::lending_device<cuda_device>);
#if CUDA_VERSION >= 12010
static_assert(detail::teaming_device<cuda_device>);
#endif

}  // namespace tutti
