// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What kernels of a program need to use a window: their block as a group, and a launch whose blocks all run at once.
#pragma once

#include <cuda_runtime.h>
#include <tuple>
#include <utility>

#include "tutti/core/error.hpp"
#include "tutti/core/text.hpp"
#include "tutti/device/api/window.hpp"
#include "tutti/device/cuda/context.cuh"
#include "tutti/device/cuda/errors.cuh"
#include "tutti/device/cuda/kernels.cuh"
#include "tutti/device/cuda/runtime.cuh"

namespace tutti {

// The threads of this block; blocks and grids have one dimension.
struct this_block : detail::block_thread {
  __device__ bool any(bool vote) const { return __syncthreads_or(vote) != 0; }
};
static_assert(detail::voting_group<this_block>);

// Launches a kernel of the program on a GPU, all of whose blocks run at once, so that they may wait for each other and for those of
// other ranks. Does not wait.
//
// Throws error: bad_argument, for more blocks than run at once; system.
//
//   tutti::launch_together(gpu, stream, 4, 256, step<float>, shared.on_device(), weights, n);
template <class... Parameters, class... Arguments>
void launch_together(cuda_device const& gpu, cudaStream_t stream, int blocks, int threads,
                     void (*kernel)(Parameters...), Arguments&&... arguments) {
  detail::current_device const here(gpu.index());
  int each = 0;
  detail::expect_cuda(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&each, kernel, threads, 0),
                      "cudaOccupancyMaxActiveBlocksPerMultiprocessor");
  if (int const most = each * gpu.multiprocessors(); blocks > most)
    throw error({.code = error_code::bad_argument,
                 .what = detail::join({blocks, " blocks of ", threads, " threads cannot run at once on GPU ",
                                       gpu.index(), ", which runs ", most}),
                 .way_out = "launch fewer blocks, and let each do more"});
  std::tuple<Parameters...> values(std::forward<Arguments>(arguments)...);
  std::apply(
      [&](auto&... each_value) {
        void* addresses[] = {const_cast<void*>(static_cast<void const*>(&each_value))...};
        detail::expect_cuda(
            cudaLaunchCooperativeKernel(reinterpret_cast<void const*>(kernel), dim3(static_cast<unsigned>(blocks)),
                                        dim3(static_cast<unsigned>(threads)), addresses, 0, stream),
            "a cooperative kernel's launch");
      },
      values);
}

}  // namespace tutti
