// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Windows, by which kernels of the program communicate with those of other ranks; for nvcc, beside cuda.cuh.
#pragma once

#include "tutti/core/config.hpp"  // first, because it refuses compilers that are too old

#include "tutti/device/api/ipc_window.hpp"
#include "tutti/device/api/kernels.cuh"
#include "tutti/device/api/local_window.hpp"
#include "tutti/device/cuda/devices.cuh"
#include "tutti/device/on/window.hpp"
