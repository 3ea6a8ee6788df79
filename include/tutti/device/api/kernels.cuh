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
#include "tutti/device/cuda/kernels.cuh"
#include "tutti/device/cuda/runtime.cuh"
#include "tutti/device/cuda/together.cuh"

namespace tutti {

// The threads of this block; blocks and grids have one dimension.
struct this_block : detail::block_thread {
  __device__ bool any(bool vote) const { return __syncthreads_or(vote) != 0; }
};
static_assert(detail::voting_group<this_block>);

namespace detail {

// launch_together without the types of the parameters.
inline void launch_program_kernel(cuda_device const& gpu, cudaStream_t stream, int blocks, int threads,
                                  void const* kernel, void** arguments) {
  current_device const here(gpu.index());
  if (int const most = blocks_of_gpu_at_once(gpu.index(), gpu.multiprocessors(), kernel, threads); blocks > most)
    throw error({.code = error_code::bad_argument,
                 .what = join({blocks, " blocks of ", threads, " threads cannot run at once on GPU ", gpu.index(),
                               ", which runs ", most}),
                 .way_out = most > 0 ? "launch fewer blocks, and let each do more"
                                     : "use a GPU with cooperative launches, and blocks that fit it"});
  launch_blocks_together(stream, kernel, blocks, threads, arguments);
}

}  // namespace detail

// Launches a kernel of the program on a GPU, all of whose blocks run at once, so that they may wait for each other and for those of
// other ranks. Does not wait. How many blocks run at once is asked before a kernel's first launch, so set its attributes
// (cudaFuncSetAttribute) before that.
//
// Throws error: bad_argument, for more blocks than run at once; system.
//
//   tutti::launch_together(gpu, stream, 4, 256, step<float>, shared.on_device(), weights, n);
template <class... Parameters, class... Arguments>
void launch_together(cuda_device const& gpu, cudaStream_t stream, int blocks, int threads,
                     void (*kernel)(Parameters...), Arguments&&... arguments) {
  std::tuple<Parameters...> values(std::forward<Arguments>(arguments)...);
  std::apply(
      [&](auto&... each_value) {
        void* addresses[] = {const_cast<void*>(static_cast<void const*>(&each_value))..., nullptr};
        detail::launch_program_kernel(gpu, stream, blocks, threads, reinterpret_cast<void const*>(kernel), addresses);
      },
      values);
}

}  // namespace tutti
