// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Definitions of device/cuda/signals.cuh.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cuda.h>
#include <cuda_runtime.h>
#include <span>

#include "tutti/device/cuda/driver.cuh"
#include "tutti/device/cuda/signals.cuh"

namespace tutti::detail {

inline constexpr std::size_t max_signals = 128;  // CUDA accepts 255 at once

TUTTI_CUDA_INLINE CUstreamBatchMemOpParams operation_of(stream_signal const& s) {
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

TUTTI_CUDA_INLINE void signal_stream(cudaStream_t stream, std::span<stream_signal const> signals) {
  CUstreamBatchMemOpParams operations[max_signals];
  while (!signals.empty()) {
    std::size_t const count = std::min(signals.size(), max_signals);
    for (std::size_t i = 0; i < count; ++i) operations[i] = operation_of(signals[i]);
    stream_batch_mem_op(stream, static_cast<unsigned>(count), operations);
    signals = signals.subspan(count);
  }
}

}  // namespace tutti::detail
