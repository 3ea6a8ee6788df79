// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The current GPU of a thread, the identity of a GPU for other processes, and host memory that all GPUs can access.
#pragma once

#include <array>
#include <cstddef>
#include <cuda_runtime.h>
#include <vector>

#include "tutti/device/cuda/driver.cuh"

namespace tutti::detail {

// Makes a device the current one of this thread, and restores the previous one at the end. A thread without a context
// keeps the new one: asking the runtime for the current device would create a context on GPU 0, which takes memory.
class current_device {
 public:
  explicit current_device(int index);
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

// Host memory that devices can access. Several ranks of a process may expose the same memory: the last that hides it ends this. Returns
// its device address.
void* expose_memory(void* memory, std::size_t bytes);
void hide_memory(void* memory) noexcept;

using gpu_identity = std::array<std::byte, 16>;

// Of all GPUs that this process sees.
std::vector<gpu_identity> const& identities_of_gpus();
gpu_identity identity_of_gpu(int index);

}  // namespace tutti::detail

#if !defined(TUTTI_CUDA_COMPILED)
#include "tutti/device/cuda/context_impl.cuh"
#endif
