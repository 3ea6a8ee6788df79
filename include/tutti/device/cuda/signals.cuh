// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Streams of a GPU that wait for words in memory and write them.
#pragma once

#include <cuda_runtime.h>
#include <span>

#include "tutti/core/config.hpp"
#include "tutti/device/model/device.hpp"

namespace tutti::detail {

// The device of the stream must be the current one.
void signal_stream(cudaStream_t stream, std::span<stream_signal const> signals);

}  // namespace tutti::detail

#if !defined(TUTTI_CUDA_COMPILED)
#include "tutti/device/cuda/signals_impl.cuh"
#endif
