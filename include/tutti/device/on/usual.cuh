// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Instantiations of the templates that most programs with GPUs use. tutti::cuda_compiled contains them, so programs that link it do
// not compile them. This is the only list.
#pragma once

#include "tutti/core/config.hpp"

// They are host code, so nvcc does not need them where it compiles for a device.
#if defined(TUTTI_CUDA_COMPILED) && !defined(__CUDA_ARCH__)

#include "tutti/device/cuda/runtime.cuh"
#include "tutti/device/ipc/cuda_ipc.hpp"
#include "tutti/transport/shared_memory/shm.hpp"
#include "tutti/transport/threads/loopback.hpp"

// Over processes of one machine, and over threads of one process.
#define TUTTI_USUAL_OVER(Transport)                               \
  TUTTI_USUAL class detail::peer_memory<cuda_device, Transport>;  \
  TUTTI_USUAL class detail::device_group<cuda_device, Transport>; \
  TUTTI_USUAL class detail::ipc_calls<cuda_device, Transport>;    \
  TUTTI_USUAL class detail::ipc_kernels<cuda_device, Transport>;  \
  TUTTI_USUAL class cuda_ipc<cuda_device, Transport>

namespace tutti {
TUTTI_USUAL_OVER(shm);
TUTTI_USUAL_OVER(loopback);
}  // namespace tutti
#undef TUTTI_USUAL_OVER

#endif
