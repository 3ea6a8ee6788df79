// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Calls that are captured once in a graph and replayed.
#pragma once

#include "tutti/cuda.cuh"
#include "tutti/device/cuda/errors.cuh"

namespace tutti::testing {

// The destructor waits for its launches. Other threads may call CUDA during the capture, unless its mode is global.
class captured {
 public:
  template <class F>
  captured(cudaStream_t stream, F const& calls, cudaStreamCaptureMode mode = cudaStreamCaptureModeThreadLocal)
      : stream_{stream} {
    cudaGraph_t graph = nullptr;
    detail::expect_cuda(cudaStreamBeginCapture(stream, mode), "cudaStreamBeginCapture");
    calls();
    detail::expect_cuda(cudaStreamEndCapture(stream, &graph), "cudaStreamEndCapture");
    cudaError_t const code = cudaGraphInstantiate(&executable_, graph, 0);
    static_cast<void>(cudaGraphDestroy(graph));
    detail::expect_cuda(code, "cudaGraphInstantiate");
  }
  captured(captured const&) = delete;
  captured& operator=(captured const&) = delete;
  ~captured() { static_cast<void>(cudaGraphExecDestroy(executable_)); }

  void replay(int times = 1) const {
    for (int i = 0; i < times; ++i) detail::expect_cuda(cudaGraphLaunch(executable_, stream_), "cudaGraphLaunch");
  }

 private:
  cudaStream_t stream_;
  cudaGraphExec_t executable_ = nullptr;
};

}  // namespace tutti::testing
