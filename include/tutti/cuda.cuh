// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What runs on GPUs, for nvcc. Include tutti.hpp beside it for collectives on host memory.
#pragma once

#include "tutti/collective/cuda_ipc.hpp"
#include "tutti/collective/cuda_local.hpp"
#include "tutti/collective/cuda_ragged.hpp"
#include "tutti/collective/cuda_staged.hpp"
#include "tutti/reduce/cuda_types.cuh"
#include "tutti/transport/cuda_runtime.cuh"
#include "tutti/transport/nvtx.cuh"
