// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The parts of tutti for nvcc that reduce within blocks of threads, which takes CUB: epilogues on rows (by_rows), and norms of
// gradients.
#pragma once

#include "tutti/cuda.cuh"

#include "tutti/device/cuda/reduction.cuh"
#include "tutti/device/front/gradient_norm.hpp"
