// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// PageRank of a dense graph: x = A x until nothing changes, where every rank has some columns of A. One kernel per step
// multiplies, sends, and adds: each warp stores its partial sums directly to the windows of all ranks, blocks meet, and each rank
// adds what it got. Neither a collective nor a copy follows, and the links are busy while the GPU still multiplies.
//
// Started alone, the program has four virtual ranks on one GPU; by tutti-run, processes with a GPU each.
//
//   nvcc -std=c++20 -O2 -arch=native -Iinclude examples/18_gpu_matvec.cu -o matvec && ./matvec && tutti-run -n 4 ./matvec
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>
#include <vector>

#include "tutti/cuda.cuh"
#include "tutti/tutti.hpp"
#include "tutti/window.cuh"

constexpr int most_ranks = 8, blocks = 4, threads = 128, steps = 10;

// What a rank has in memory of its GPU: some columns of A, row by row, and the whole vector, before a step and after it.
struct shard {
  float const* matrix;
  float* x[2];
};
struct shards {
  shard of[most_ranks];  // by rank, for those that this process launches
  int n, first;
};

// Blocks of several ranks may be in one launch. The halves of the window take turns: who comes to the barrier of the next step has
// read what it got in this one, so nobody overwrites what is still to be read.
__global__ void multiply(__grid_constant__ tutti::window<float> const shared, __grid_constant__ shards const all,
                         int turn) {
  int const rank = all.first + static_cast<int>(blockIdx.x) / blocks, block = static_cast<int>(blockIdx.x) % blocks;
  tutti::window_block here(shared, rank, block);
  shard const mine = all.of[rank];
  auto const n = static_cast<std::size_t>(all.n);
  tutti::extent const columns = tutti::part(n, here.ranks(), rank), rows = tutti::part(n, blocks, block);
  float const* const x = mine.x[turn % 2] + columns.begin;
  float* const result = mine.x[(turn + 1) % 2];
  std::size_t const half = static_cast<std::size_t>(turn % 2) * static_cast<std::size_t>(here.ranks()) * n;

  std::size_t const warps = blockDim.x / 32, warp = threadIdx.x / 32;
  int const lane = static_cast<int>(threadIdx.x % 32);
  for (std::size_t row = rows.begin + warp; row < rows.end(); row += warps) {
    float sum = 0;
    for (std::size_t j = static_cast<std::size_t>(lane); j < columns.count; j += 32)
      sum += mine.matrix[row * columns.count + j] * x[j];
    for (int apart = 16; apart > 0; apart /= 2) sum += __shfl_xor_sync(0xffffffff, sum, apart);
    if (lane < here.ranks()) here.of(lane)[half + static_cast<std::size_t>(rank) * n + row] = sum;
  }
  if (!here.barrier()) return;  // a rank did not come; the host hears which
  for (std::size_t row = rows.begin + threadIdx.x; row < rows.end(); row += blockDim.x) {
    float sum = 0;
    for (int q = 0; q < here.ranks(); ++q) sum += here.local()[half + static_cast<std::size_t>(q) * n + row];
    result[row] = sum;
  }
}

std::shared_ptr<float> on_gpu(tutti::cuda_device const& gpu, std::vector<float> const& values) {
  std::size_t const bytes = values.size() * sizeof(float);
  std::shared_ptr<float> out(static_cast<float*>(gpu.allocate(bytes)), [&gpu](float* memory) { gpu.release(memory); });
  gpu.copy({}, out.get(), values.data(), bytes);
  return out;
}

// The share of page j's rank that its link to page i passes on.
float weight(std::size_t i, std::size_t j, std::size_t n) {
  return (1 + static_cast<float>((i * 7 + j * 13) % 5 == 0 ? i % 11 : 0)) / static_cast<float>(n);
}
// The columns of a rank, each of which sums to 1.
std::vector<float> columns_of(int rank, int ranks, std::size_t n) {
  tutti::extent const columns = tutti::part(n, ranks, rank);
  std::vector<float> out(n * columns.count);
  for (std::size_t j = 0; j < columns.count; ++j) {
    float sum = 0;
    for (std::size_t i = 0; i < n; ++i) sum += weight(i, columns.begin + j, n);
    for (std::size_t i = 0; i < n; ++i) out[i * columns.count + j] = weight(i, columns.begin + j, n) / sum;
  }
  return out;
}

// The memory of one rank.
class rank_memory {
 public:
  rank_memory(tutti::cuda_device const& gpu, int rank, int ranks, std::size_t n)
      : gpu_{gpu},
        n_{n},
        matrix_(on_gpu(gpu, columns_of(rank, ranks, n))),
        x_{on_gpu(gpu, std::vector<float>(n, 1 / static_cast<float>(n))), on_gpu(gpu, std::vector<float>(n))} {}

  shard view() const { return {matrix_.get(), {x_[0].get(), x_[1].get()}}; }
  // After the last step, and before it.
  std::vector<float> x(int turn) const {
    std::vector<float> out(n_);
    gpu_.copy({}, out.data(), x_[turn % 2].get(), n_ * sizeof(float));
    return out;
  }

 private:
  tutti::cuda_device const& gpu_;
  std::size_t n_;
  std::shared_ptr<float> matrix_, x_[2];
};

bool is_stationary(std::vector<float> const& x, std::vector<float> const& before) {
  float sum = 0, change = 0;
  for (std::size_t i = 0; i < x.size(); ++i) sum += x[i], change += std::fabs(x[i] - before[i]);
  std::printf("the ranks of %zu pages sum to %.4f, and the last step changed %.6f of it\n", x.size(), sum, change);
  return std::fabs(sum - 1) < 1e-3f && change < 1e-4f;
}

bool on_virtual_ranks(int ranks, std::size_t n) {
  tutti::cuda_device const gpu;
  tutti::cuda_local const local(gpu, ranks);
  auto const shared = tutti::open_window<float>(local, 2 * static_cast<std::size_t>(ranks) * n, {.blocks = blocks});
  std::vector<rank_memory> memory;
  shards all{.of = {}, .n = static_cast<int>(n), .first = 0};
  for (int r = 0; r < ranks; ++r) all.of[r] = memory.emplace_back(gpu, r, ranks, n).view();
  for (int turn = 0; turn < steps; ++turn)
    tutti::launch_together(gpu, nullptr, ranks * blocks, threads, multiply, shared.on_device(), all, turn);
  shared.wait();
  for (int r = 1; r < ranks; ++r)
    if (memory[static_cast<std::size_t>(r)].x(steps) != memory[0].x(steps)) return false;
  return is_stationary(memory[0].x(steps), memory[0].x(steps - 1));
}

bool on_processes(tutti::communicator<tutti::shm>& comm, std::size_t n) {
  tutti::cuda_device const gpu(comm.local_rank());
  tutti::cuda_ipc ranks(comm, gpu);
  auto const shared =
      tutti::open_window<float>(ranks, 2 * static_cast<std::size_t>(comm.size()) * n, {.blocks = blocks});
  rank_memory const memory(gpu, comm.rank(), comm.size(), n);
  shards all{.of = {}, .n = static_cast<int>(n), .first = comm.rank()};
  all.of[comm.rank()] = memory.view();
  for (int turn = 0; turn < steps; ++turn)
    tutti::launch_together(gpu, nullptr, blocks, threads, multiply, shared.on_device(), all, turn);
  shared.wait();
  std::vector<float> least = memory.x(steps), greatest = least;
  tutti::all_reduce(comm, least, tutti::min{});
  tutti::all_reduce(comm, greatest, tutti::max{});
  return least == greatest && (!comm.is_main() || is_stationary(least, memory.x(steps - 1)));
}

int main(int argc, char** argv) {
  try {
    auto comm = tutti::init();
    int const gpus = tutti::cuda_device_count();
    if (gpus == 0 || comm.size() > gpus || comm.size() > most_ranks) {
      comm.main_only([] { std::puts("skipped: there is no GPU for each rank"); });
      return 77;
    }
    std::size_t const n = argc > 1 ? std::strtoul(argv[1], nullptr, 10) : 2000;
    bool const good = comm.size() == 1 ? on_virtual_ranks(4, n) : on_processes(comm, n);
    if (!good) std::puts("FAILED");
    return good ? 0 : 1;
  } catch (std::exception const& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 1;
  }
}
