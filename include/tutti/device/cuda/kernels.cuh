// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The kernels. They call a function object in every thread of a grid, or of blocks that run at once.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tutti::detail {

// nvcc 13.0 with clang as its host compiler gives members that a designated initialiser passes over the value 0 on the
// device, instead of their default. Kernels that walk schedules would wait for messages that nobody sends.
struct defaults_kept {
  int passed_over = 1, named = 0;
};
static_assert(defaults_kept{.named = 1}.passed_over == 1,
              "with this host compiler, nvcc miscompiles the kernels of tutti; use g++ as its host compiler (nvcc "
              "-ccbin g++)");

// 64 registers per thread are enough for all kernels of a grid, and allow 1,024 threads per multiprocessor.
inline constexpr int block_threads = 256, min_blocks = 4;

// A thread of a grid.
struct grid_thread {
  static constexpr std::size_t block_bytes = 16, block_size = block_threads;
  __device__ int rank() const { return static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x); }
  __device__ int size() const { return static_cast<int>(gridDim.x * blockDim.x); }
};

// Work may state how many items a thread handles at once, and then divides them among blocks in tiles.
template <class Work>
concept tiled_work = requires { Work::turns; };

template <class Work>
__global__ void __launch_bounds__(block_threads, min_blocks) run_work(__grid_constant__ Work const work) {
  work(grid_thread{});
}

// The reduction of a block by CUB, whose headers take nvcc a second: programs that need it include tutti/cuda_rows.cuh, which
// defines it.
template <class T>
struct block_reduction;

// A thread of a block. The barrier is not the aligned one, because a leader and its followers reach it at different
// places.
struct block_thread {
  static constexpr int warp = 32;
  template <class T>
  using reduction = block_reduction<T>;
  __device__ int rank() const { return static_cast<int>(threadIdx.x); }
  __device__ int size() const { return static_cast<int>(blockDim.x); }
  __device__ int block() const { return static_cast<int>(blockIdx.x); }
  __device__ void sync() const { asm volatile("barrier.sync 0;" ::: "memory"); }
};

// Work may state how many of its blocks fit a multiprocessor at least. Without it (0), the assembler aims at eight
// blocks of a small kernel, and spills what does not fit into 32 registers.
template <class Work>
constexpr int blocks_together() {
  if constexpr (requires { Work::blocks_together; }) return Work::blocks_together;
  else return 0;
}
template <class Work>
__global__ void __launch_bounds__(block_threads, blocks_together<Work>())
    run_together(__grid_constant__ Work const work) {
  using room = typename Work::template room<block_thread>;
  alignas(room) __shared__ unsigned char memory[sizeof(room)];
  work(block_thread{}, reinterpret_cast<room&>(memory));
}

// Reads the word once per block, because it may be in host memory.
template <class Work>
__global__ void __launch_bounds__(block_threads, min_blocks)
    run_work_unless(__grid_constant__ Work const work, std::uint32_t const* unless) {
  __shared__ bool stopped;
  if (threadIdx.x == 0) stopped = *static_cast<std::uint32_t volatile const*>(unless) != 0;
  __syncthreads();
  if (!stopped) return work(grid_thread{});
  if constexpr (requires { work.skipped(); })
    if (grid_thread{}.rank() == 0) work.skipped();
}

}  // namespace tutti::detail
