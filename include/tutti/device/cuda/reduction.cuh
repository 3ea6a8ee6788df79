// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The reduction of a block, by CUB.
#pragma once

#include <cub/block/block_reduce.cuh>

#include "tutti/device/cuda/kernels.cuh"

namespace tutti::detail {

template <class T>
struct block_reduction {
  // Each warp combines its values in the order of its threads, then one thread combines the warps in theirs.
  using by_warps = cub::BlockReduce<T, block_threads, cub::BLOCK_REDUCE_WARP_REDUCTIONS>;

  typename by_warps::TempStorage storage;
  T all;

  // It can be used again at once: the next result is stored after a barrier, which all threads reach with this one.
  template <class F>
  __device__ T of_all(block_thread const& thread, T const& x, F const& f) {
    T const out = by_warps(storage).Reduce(x, f);
    if (thread.rank() == 0) all = out;
    thread.sync();
    return all;
  }
};

}  // namespace tutti::detail
