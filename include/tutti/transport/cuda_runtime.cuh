// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A GPU by the CUDA runtime: every call is checked. No launch waits for the device; `wait` does, until a deadline, and CUDA
// itself where memory is given back or copied to or from pageable memory of the host. A program that is built
// with it runs where there is no GPU or driver, as long as it makes no cuda_device.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cuda_runtime.h>
#include <string>
#include <thread>

#include "tutti/core/error.hpp"
#include "tutti/core/text.hpp"
#include "tutti/core/wait.hpp"
#include "tutti/transport/device.hpp"
#include "tutti/transport/staging_device.hpp"

namespace tutti {
namespace detail {

// After these, every call of the process on the GPU fails: CUDA cannot take them back.
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
    return "the error is sticky: every later call of this process on the GPU fails too; find the kernel by "
           "compute-sanitizer and start the program again";
  switch (code) {
    case cudaErrorNoDevice:
    case cudaErrorInsufficientDriver:
    case cudaErrorInitializationError:
    case cudaErrorSystemDriverMismatch:
      return "install a driver for this CUDA, see nvidia-smi, or use collectives on host memory";
    case cudaErrorNoKernelImageForDevice:
      return "compile for this GPU, as by nvcc -arch=native, or with PTX for later ones";
    case cudaErrorMemoryAllocation: return "free memory of the GPU, or work on smaller parts";
    default: return "see what the CUDA runtime documents for this error";
  }
}

[[gnu::cold, noreturn]] inline void throw_cuda(cudaError_t code, text_part const& call) {
  throw error({.code = error_code::system,
               .what = join({call.view(), " failed: ", cudaGetErrorString(code), " (", cudaGetErrorName(code), ")"}),
               .way_out = way_out_of(code)});
}

inline void expect_cuda(cudaError_t code, char const* call) {
  if (code == cudaSuccess) return;
  static_cast<void>(cudaGetLastError());  // or the next call would report it again
  throw_cuda(code, call);
}

// A thread of a grid.
struct grid_thread {
  static constexpr std::size_t block_bytes = 16;
  __device__ int rank() const { return static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x); }
  __device__ int size() const { return static_cast<int>(gridDim.x * blockDim.x); }
};

// 64 registers a thread are enough for all that is here, and leave room for 1,024 threads on a multiprocessor.
inline constexpr int block_threads = 256, least_blocks = 4;

template <class Work>
__global__ void __launch_bounds__(block_threads, least_blocks) run_work(__grid_constant__ Work const work) {
  work(grid_thread{});
}

// Makes a device the current one of this thread, and the one before again at the end.
class current_device {
 public:
  explicit current_device(int index) {
    expect_cuda(cudaGetDevice(&before_), "cudaGetDevice");
    if (before_ != index) expect_cuda(cudaSetDevice(index), "cudaSetDevice");
    changed_ = before_ != index;
  }
  current_device(current_device const&) = delete;
  current_device& operator=(current_device const&) = delete;
  ~current_device() {
    if (changed_ && cudaSetDevice(before_) != cudaSuccess) static_cast<void>(cudaGetLastError());
  }

 private:
  int before_ = 0;
  bool changed_ = false;
};

}  // namespace detail

// How many GPUs this process sees; 0 where there is no driver.
inline int cuda_device_count() {
  int count = 0;
  if (cudaGetDeviceCount(&count) == cudaSuccess) return count;
  static_cast<void>(cudaGetLastError());
  return 0;
}

// One GPU. A model of `device`; streams are the program's own, or null for the default one.
class cuda_device {
 public:
  using stream_type = cudaStream_t;

  // Throws error: system, where there is no such GPU.
  explicit cuda_device(int index = 0) : index_{index} {
    int count = 0;
    detail::expect_cuda(cudaGetDeviceCount(&count), "cudaGetDeviceCount");
    if (index < 0 || index >= count)
      throw error({.code = error_code::bad_argument,
                   .what = join({"there is no GPU ", index, " among the ", count, " that this process sees"}),
                   .way_out = "see nvidia-smi and CUDA_VISIBLE_DEVICES"});
    detail::expect_cuda(cudaDeviceGetAttribute(&processors_, cudaDevAttrMultiProcessorCount, index),
                        "cudaDeviceGetAttribute");
  }

  int index() const { return index_; }

  void* allocate(std::size_t bytes) const {
    detail::current_device const here(index_);
    void* out = nullptr;
    cudaError_t const code = cudaMalloc(&out, std::max<std::size_t>(bytes, 1));
    if (code == cudaSuccess) return out;
    static_cast<void>(cudaGetLastError());
    std::size_t free = 0, total = 0;
    if (code != cudaErrorMemoryAllocation || cudaMemGetInfo(&free, &total) != cudaSuccess)
      detail::throw_cuda(code, "cudaMalloc");
    detail::throw_cuda(
        code, join({"cudaMalloc of ", bytes, " bytes on GPU ", index_, ", where ", free, " of ", total, " are free,"}));
  }
  void release(void* memory) const noexcept { static_cast<void>(cudaFree(memory)); }

  void copy(stream_type stream, void* to, void const* from, std::size_t bytes) const {
    detail::current_device const here(index_);
    detail::expect_cuda(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream), "cudaMemcpyAsync");
  }

  // As many threads as run at once, and none that would find nothing to do.
  template <class Work>
  void launch(stream_type stream, std::size_t items, Work const& work) const {
    detail::current_device const here(index_);
    constexpr std::size_t threads = detail::block_threads;
    std::size_t const most = static_cast<std::size_t>(processors_) * detail::least_blocks;
    std::size_t const blocks = std::clamp<std::size_t>((items + threads - 1) / threads, 1, most);
    void* arguments[] = {const_cast<Work*>(&work)};
    detail::expect_cuda(
        cudaLaunchKernel(reinterpret_cast<void const*>(&detail::run_work<Work>), dim3(static_cast<unsigned>(blocks)),
                         dim3(static_cast<unsigned>(threads)), arguments, 0, stream),
        "a kernel's launch");
  }

  // Throws error: system, also for a fault of a kernel on any stream; timeout.
  void wait(stream_type stream, deadline until) const {
    detail::current_device const here(index_);
    cudaError_t code = cudaErrorNotReady;
    auto const poll = [&] {
      code = cudaStreamQuery(stream);
      if (code != cudaErrorNotReady) return progress::done;
      static_cast<void>(cudaGetLastError());  // or the program's next call would seem to have failed
      return progress::stuck;
    };
    bool const done = wait_until_done(poll, patience_sharing_cores, until, [](auto const&) {
      std::this_thread::sleep_for(std::chrono::microseconds{50});
      return true;
    });
    if (!done)
      throw error({.code = error_code::timeout,
                   .what = join({"the work on a stream of GPU ", index_, " has not ended in time"}),
                   .way_out = "wait longer, or see by nvidia-smi what else the GPU does"});
    detail::expect_cuda(code, "the work on a stream");
  }

  // -- Streams of tutti's own, which do not wait for the default stream, and pinned memory of the host.
  stream_type make_stream() const {
    detail::current_device const here(index_);
    stream_type out = nullptr;
    detail::expect_cuda(cudaStreamCreateWithFlags(&out, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
    return out;
  }
  void end_stream(stream_type stream) const noexcept { static_cast<void>(cudaStreamDestroy(stream)); }
  void* allocate_pinned(std::size_t bytes) const {
    detail::current_device const here(index_);
    void* out = nullptr;
    cudaError_t const code = cudaHostAlloc(&out, std::max<std::size_t>(bytes, 1), cudaHostAllocPortable);
    if (code == cudaSuccess) return out;
    static_cast<void>(cudaGetLastError());
    detail::throw_cuda(code, join({"cudaHostAlloc of ", bytes, " bytes"}));
  }
  void release_pinned(void* memory) const noexcept { static_cast<void>(cudaFreeHost(memory)); }

  // -- Events.
  using event_type = cudaEvent_t;

  event_type make_event() const {
    detail::current_device const here(index_);
    cudaEvent_t out = nullptr;
    detail::expect_cuda(cudaEventCreateWithFlags(&out, cudaEventDisableTiming), "cudaEventCreateWithFlags");
    return out;
  }
  void drop(event_type event) const noexcept { static_cast<void>(cudaEventDestroy(event)); }
  void record(event_type event, stream_type stream) const {
    detail::current_device const here(index_);
    detail::expect_cuda(cudaEventRecord(event, stream), "cudaEventRecord");
  }
  void follow(stream_type stream, event_type event) const {
    detail::current_device const here(index_);
    detail::expect_cuda(cudaStreamWaitEvent(stream, event, 0), "cudaStreamWaitEvent");
  }
  bool reached(event_type event) const {
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
    detail::expect_cuda(cudaStreamIsCapturing(stream, &status), "cudaStreamIsCapturing");
    return status != cudaStreamCaptureStatusNone;
  }

 private:
  int index_;
  int processors_ = 0;
};
static_assert(device<cuda_device> && marking_device<cuda_device> && staging_device<cuda_device>);

}  // namespace tutti
