// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The parts of tutti that run on GPUs, for nvcc. Also include tutti.hpp for collectives on host memory.
#pragma once

#include "tutti/core/config.hpp"  // first, because it refuses compilers that are too old

#include "tutti/device/cuda/devices.cuh"
#include "tutti/device/cuda/nvtx.cuh"
#include "tutti/device/cuda/runtime.cuh"
#include "tutti/device/cuda/types.cuh"
#include "tutti/device/ipc/cuda_ipc.hpp"
#include "tutti/device/local/cuda_local.hpp"
#include "tutti/device/local/ragged.hpp"
#include "tutti/device/on/cuda_ranks.hpp"
#include "tutti/device/on/usual.cuh"
#include "tutti/device/staged/cuda_staged.hpp"
