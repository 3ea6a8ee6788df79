// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A GPU by the CUDA runtime: every call is checked. No launch waits for the device; `wait` does, until a deadline, and CUDA
// itself where memory is given back or copied to or from pageable memory of the host. A program that is built
// with it runs where there is no GPU or driver, as long as it makes no cuda_device.
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <cuda.h>
#include <cuda_runtime.h>
#include <map>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <unistd.h>

#include "tutti/core/error.hpp"
#include "tutti/core/text.hpp"
#include "tutti/core/wait.hpp"
#include "tutti/transport/cuda_driver.cuh"
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
    case cudaErrorDevicesUnavailable:
      return "another process has the GPU for itself: allow several by nvidia-smi -c DEFAULT, or use another GPU";
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

// A thread of a block. The barrier is not the aligned one: a leader and those that it leads come to it at different places.
struct block_thread {
  static constexpr int warp = 32;
  __device__ int rank() const { return static_cast<int>(threadIdx.x); }
  __device__ int size() const { return static_cast<int>(blockDim.x); }
  __device__ int block() const { return static_cast<int>(blockIdx.x); }
  __device__ void sync() const { asm volatile("barrier.sync 0;" ::: "memory"); }
};

template <class Work>
__global__ void __launch_bounds__(block_threads) run_together(__grid_constant__ Work const work) {
  using room = typename Work::template room<block_thread>;
  __shared__ alignas(room) unsigned char memory[sizeof(room)];
  work(block_thread{}, reinterpret_cast<room&>(memory));
}

// A block looks once, for the word may be in memory of the host.
template <class Work>
__global__ void __launch_bounds__(block_threads, least_blocks)
    run_work_unless(__grid_constant__ Work const work, std::uint32_t const* unless) {
  __shared__ bool stopped;
  if (threadIdx.x == 0) stopped = *static_cast<std::uint32_t volatile const*>(unless) != 0;
  __syncthreads();
  if (!stopped) work(grid_thread{});
}

// Memory of the host that devices see, which several ranks of a process may ask for.
class exposed_memory {
 public:
  static void* add(void* memory, std::size_t bytes) {
    std::lock_guard const lock(guard());
    int& users = all()[memory];
    if (users == 0)
      expect_cuda(cudaHostRegister(memory, bytes, cudaHostRegisterPortable | cudaHostRegisterMapped),
                  "cudaHostRegister");
    ++users;
    void* out = nullptr;
    expect_cuda(cudaHostGetDevicePointer(&out, memory, 0), "cudaHostGetDevicePointer");
    return out;
  }
  static void remove(void* memory) noexcept {
    std::lock_guard const lock(guard());
    if (--all()[memory] == 0) static_cast<void>(cudaHostUnregister(memory));
  }

 private:
  static std::map<void*, int>& all() {
    static auto* const out = new std::map<void*, int>;
    return *out;
  }
  static std::mutex& guard() {
    static std::mutex out;
    return out;
  }
};

inline std::array<std::byte, 16> identity_of_gpu(int index) {
  cudaDeviceProp about{};
  expect_cuda(cudaGetDeviceProperties(&about, index), "cudaGetDeviceProperties");
  std::array<std::byte, 16> out{};
  static_assert(sizeof about.uuid == sizeof out);
  std::memcpy(out.data(), &about.uuid, sizeof out);
  return out;
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

  template <class Work>
  void launch(stream_type stream, std::size_t items, Work const& work) const {
    void* arguments[] = {const_cast<Work*>(&work)};
    launch_kernel(stream, items, reinterpret_cast<void const*>(&detail::run_work<Work>), arguments);
  }

  template <class Work>
  int blocks_at_once() const {
    detail::current_device const here(index_);
    int possible = 0, each = 0;
    detail::expect_cuda(cudaDeviceGetAttribute(&possible, cudaDevAttrCooperativeLaunch, index_),
                        "cudaDeviceGetAttribute");
    if (possible == 0) return 0;
    detail::expect_cuda(
        cudaOccupancyMaxActiveBlocksPerMultiprocessor(&each, &detail::run_together<Work>, detail::block_threads, 0),
        "cudaOccupancyMaxActiveBlocksPerMultiprocessor");
    return each * processors_;
  }
  template <class Work>
  void launch_together(stream_type stream, int blocks, Work const& work) const {
    if (int const most = blocks_at_once<Work>(); blocks > most)
      throw error({.code = error_code::bad_argument,
                   .what = join({blocks, " blocks are to run at once on GPU ", index_, ", which runs ", most}),
                   .way_out = most > 0 ? "ask for fewer ranks" : "leave the algorithm automatic on this GPU"});
    detail::current_device const here(index_);
    void* arguments[] = {const_cast<Work*>(&work)};
    detail::expect_cuda(
        cudaLaunchCooperativeKernel(reinterpret_cast<void const*>(&detail::run_together<Work>),
                                    dim3(static_cast<unsigned>(blocks)),
                                    dim3(static_cast<unsigned>(detail::block_threads)), arguments, 0, stream),
        "a cooperative kernel's launch");
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

  // -- Memory that processes share, and streams that wait for words.

  device_memory_handle share(void* memory) const {
    detail::current_device const here(index_);
    device_memory_handle out{.owner = detail::identity_of_gpu(index_), .address = memory, .process = ::getpid()};
    void* const begin = detail::begin_of_allocation(memory);
    out.offset = static_cast<std::size_t>(static_cast<std::byte*>(memory) - static_cast<std::byte*>(begin));
    cudaIpcMemHandle_t handle{};
    cudaError_t const code = cudaIpcGetMemHandle(&handle, begin);
    static_cast<void>(cudaGetLastError());
    if (code != cudaSuccess)
      throw error({.code = error_code::system,
                   .what = join({"GPU ", index_, " cannot share memory: ", cudaGetErrorString(code)}),
                   .way_out = "share memory of cudaMalloc, not of pools; or use tutti::cuda_staged"});
    static_assert(sizeof handle == sizeof out.token);
    std::memcpy(out.token.data(), &handle, sizeof handle);
    return out;
  }
  void* open(device_memory_handle const& handle) const {
    detail::current_device const here(index_);
    expect_reach(handle);
    if (handle.process == ::getpid()) return handle.address;
    cudaIpcMemHandle_t token{};
    std::memcpy(&token, handle.token.data(), sizeof token);
    void* begin = nullptr;
    cudaError_t const code = cudaIpcOpenMemHandle(&begin, token, cudaIpcMemLazyEnablePeerAccess);
    static_cast<void>(cudaGetLastError());
    if (code != cudaSuccess)
      throw error({.code = error_code::system,
                   .what = join({"memory of a GPU in process ", handle.process,
                                 " cannot be opened: ", cudaGetErrorString(code)}),
                   .way_out = "let containers share the host's IPC namespace, or use tutti::cuda_staged"});
    return static_cast<std::byte*>(begin) + handle.offset;
  }
  void close(device_memory_handle const& handle, void* memory) const noexcept {
    if (handle.process != ::getpid())
      static_cast<void>(cudaIpcCloseMemHandle(static_cast<std::byte*>(memory) - handle.offset));
  }
  void* expose(void* memory, std::size_t bytes) const {
    detail::current_device const here(index_);
    return detail::exposed_memory::add(memory, bytes);
  }
  void hide(void* memory) const noexcept { detail::exposed_memory::remove(memory); }

  void signal(stream_type stream, std::span<stream_signal const> signals) const {
    detail::current_device const here(index_);
    CUstreamBatchMemOpParams operations[most_signals];
    while (!signals.empty()) {
      std::size_t const count = std::min(signals.size(), most_signals);
      for (std::size_t i = 0; i < count; ++i) operations[i] = operation_of(signals[i]);
      detail::stream_batch_mem_op(stream, static_cast<unsigned>(count), operations);
      signals = signals.subspan(count);
    }
  }
  template <class Work>
  void launch_unless(stream_type stream, std::uint32_t const* unless, std::size_t items, Work const& work) const {
    void* arguments[] = {const_cast<Work*>(&work), &unless};
    launch_kernel(stream, items, reinterpret_cast<void const*>(&detail::run_work_unless<Work>), arguments);
  }
  std::string text() const {
    cudaDeviceProp about{};
    detail::expect_cuda(cudaGetDeviceProperties(&about, index_), "cudaGetDeviceProperties");
    return join({"GPU ", index_, " (", about.name, ")"});
  }

 private:
  static constexpr std::size_t most_signals = 128;  // CUDA takes 255 at once

  static CUstreamBatchMemOpParams operation_of(stream_signal const& s) {
    CUstreamBatchMemOpParams out{};
    auto const address = reinterpret_cast<CUdeviceptr>(s.word);
    if (s.what == stream_signal::kind::wait) {
      out.waitValue.operation = CU_STREAM_MEM_OP_WAIT_VALUE_32;
      out.waitValue.address = address;
      out.waitValue.value = s.value;
      out.waitValue.flags = CU_STREAM_WAIT_VALUE_EQ;
    } else {
      out.writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
      out.writeValue.address = address;
      out.writeValue.value = s.value;
      out.writeValue.flags = CU_STREAM_WRITE_VALUE_DEFAULT;
    }
    return out;
  }

  // This device reads memory of that of a handle.
  void expect_reach(device_memory_handle const& handle) const {
    int count = 0, there = -1;
    detail::expect_cuda(cudaGetDeviceCount(&count), "cudaGetDeviceCount");
    for (int i = 0; i < count && there < 0; ++i)
      if (detail::identity_of_gpu(i) == handle.owner) there = i;
    if (there == index_) return;
    int reaches = 0;
    if (there >= 0) detail::expect_cuda(cudaDeviceCanAccessPeer(&reaches, index_, there), "cudaDeviceCanAccessPeer");
    if (reaches == 0)
      throw error({.code = error_code::system,
                   .what = there < 0 ? join({"the GPU of process ", handle.process, " is hidden from this one"})
                                     : join({"GPU ", index_, " cannot read memory of GPU ", there}),
                   .way_out = there < 0 ? "choose GPUs by cuda_device(index), not by CUDA_VISIBLE_DEVICES, or use "
                                          "tutti::cuda_staged"
                                        : "see nvidia-smi topo -p2p r, or use tutti::cuda_staged"});
    if (handle.process != ::getpid()) return;
    cudaError_t const code = cudaDeviceEnablePeerAccess(there, 0);
    static_cast<void>(cudaGetLastError());
    if (code != cudaErrorPeerAccessAlreadyEnabled) detail::expect_cuda(code, "cudaDeviceEnablePeerAccess");
  }

  // As many threads as run at once, and none that would find nothing to do.
  void launch_kernel(stream_type stream, std::size_t items, void const* kernel, void** arguments) const {
    detail::current_device const here(index_);
    constexpr std::size_t threads = detail::block_threads;
    std::size_t const most = static_cast<std::size_t>(processors_) * detail::least_blocks;
    std::size_t const blocks = std::clamp<std::size_t>((items + threads - 1) / threads, 1, most);
    detail::expect_cuda(cudaLaunchKernel(kernel, dim3(static_cast<unsigned>(blocks)),
                                         dim3(static_cast<unsigned>(threads)), arguments, 0, stream),
                        "a kernel's launch");
  }

  int index_;
  int processors_ = 0;
};
static_assert(cooperative_device<cuda_device> && marking_device<cuda_device> && sharing_device<cuda_device> &&
              staging_device<cuda_device>);

}  // namespace tutti
