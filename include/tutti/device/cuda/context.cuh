// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The current GPU of a thread, the identity of a GPU for other processes, and host memory that all GPUs can access.
#pragma once

#include <array>
#include <cstddef>
#include <cstring>
#include <cuda_runtime.h>
#include <map>
#include <mutex>
#include <vector>

#include "tutti/device/cuda/driver.cuh"
#include "tutti/device/cuda/errors.cuh"

namespace tutti::detail {

// Makes a device the current one of this thread, and restores the previous one at the end. A thread without a context
// keeps the new one: asking the runtime for the current device would create a context on GPU 0, which takes memory.
class current_device {
 public:
  explicit current_device(int index) : before_(current_context()) {
    if (before_ != nullptr && device_of_current_context() == index) {
      before_ = nullptr;
      return;
    }
    expect_cuda(cudaSetDevice(index), "cudaSetDevice");
  }
  current_device(current_device const&) = delete;
  current_device& operator=(current_device const&) = delete;
  ~current_device() {
    if (before_ != nullptr) make_current(before_);
  }

 private:
  CUcontext before_;  // null if there is nothing to restore
};

// While it exists, this thread may poll streams and events, and allocate, release and share memory. Otherwise these calls would
// fail while any thread captures a stream in global mode, and would invalidate that capture. None of them enqueues work.
class calls_during_captures {
 public:
  calls_during_captures() { exchange(); }
  calls_during_captures(calls_during_captures const&) = delete;
  calls_during_captures& operator=(calls_during_captures const&) = delete;
  ~calls_during_captures() { exchange(); }

 private:
  void exchange() noexcept { static_cast<void>(cudaThreadExchangeStreamCaptureMode(&mode_)); }
  cudaStreamCaptureMode mode_ = cudaStreamCaptureModeRelaxed;
};

// Host memory that devices can access; several ranks of a process may ask for the same memory.
class exposed_memory {
 public:
  static void* add(void* memory, std::size_t bytes) {
    calls_during_captures const allowed;
    std::lock_guard const lock(guard());
    int& users = all()[memory];
    if (users == 0)
      expect_cuda(cudaHostRegister(memory, bytes, cudaHostRegisterPortable | cudaHostRegisterMapped),
                  "cudaHostRegister");
    void* out = nullptr;
    cudaError_t const code = cudaHostGetDevicePointer(&out, memory, 0);
    if (code != cudaSuccess && users == 0) static_cast<void>(cudaHostUnregister(memory));
    expect_cuda(code, "cudaHostGetDevicePointer");
    ++users;
    return out;
  }
  static void remove(void* memory) noexcept {
    calls_during_captures const allowed;
    std::lock_guard const lock(guard());
    if (--all()[memory] == 0 && cudaHostUnregister(memory) != cudaSuccess) static_cast<void>(cudaGetLastError());
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

using gpu_identity = std::array<std::byte, 16>;

// Of all GPUs that this process sees.
inline std::vector<gpu_identity> const& identities_of_gpus() {
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
inline gpu_identity identity_of_gpu(int index) { return identities_of_gpus().at(static_cast<std::size_t>(index)); }

}  // namespace tutti::detail
