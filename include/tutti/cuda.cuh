// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Everything of tutti.hpp, and what runs on GPUs. For nvcc.
#pragma once

#include "tutti/collective/cuda_local.hpp"
#include "tutti/transport/cuda_runtime.cuh"
#include "tutti/tutti.hpp"
