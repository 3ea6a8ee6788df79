// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// all_reduce of float arrays in GPU memory between two processes over shared memory: cuda_staged, compared with a program that copies its
// array to pinned memory, calls the host's all_reduce there and copies the result back. The two take turns. It ends with the size up to
// which one_shot is faster among four ranks with a GPU each, as a line of a tuning table.
//
//   nvcc -std=c++20 -O2 -arch=native -Iinclude bench/cuda_staged.cu -o bench_cuda_staged && ./bench_cuda_staged
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <exception>
#include <span>
#include <string>
#include <vector>

#include "../tests/support/gpu_count.cuh"
#include "crossover.hpp"
#include "median.hpp"
#include "tutti/cuda.cuh"
#include "tutti/device/cuda/errors.cuh"
#include "tutti/tutti.hpp"

namespace {

using namespace tutti;
using namespace tutti::detail;
using clock_type = std::chrono::steady_clock;

constexpr int rounds = 20, ranks_of_limit = 4;
constexpr char const* limit_name = "by_host one_shot";
constexpr std::size_t largest = std::size_t{256} << 20;

// Microseconds until the call and its work on the GPU have completed, at the slower rank.
template <class Comm, class F>
double time_of(Comm& comm, cuda_device const& gpu, F const& call) {
  barrier(comm);
  auto const began = clock_type::now();
  call();
  gpu.wait({}, deadline::after(std::chrono::seconds{60}));
  double took = std::chrono::duration<double, std::micro>(clock_type::now() - began).count();
  all_reduce(comm, std::span(&took, 1), tutti::max{});
  return took;
}

// The GPU of this rank, to which this program's own CUDA calls go.
template <class Comm>
cuda_device device_of(Comm const& comm) {
  cuda_device const gpu(comm.rank() % cuda_device_count());
  detail::expect_cuda(cudaSetDevice(gpu.index()), "cudaSetDevice");
  return gpu;
}

template <class Comm>
void compare(Comm& comm) {
  cuda_device const gpu = device_of(comm);
  cuda_staged ranks(comm, gpu);
  device_array<cuda_device, float> const array(gpu, largest / sizeof(float));
  message_memory<cuda_device> const pinned(gpu, largest, true);
  detail::expect_cuda(cudaMemsetAsync(array.data(), 0, largest), "cudaMemsetAsync");
  comm.main_only([] {
    std::puts(
        "us: median, until the result is in memory of the GPU. ratio: time of the copies and the host, over ours.\n");
    std::puts("| bytes | cuda_staged, us | copies and the host, us | ratio |\n|---:|---:|---:|---:|");
  });
  for (std::size_t bytes = 1024; bytes <= largest; bytes *= 4) {
    std::span const data(array.data(), bytes / sizeof(float));
    std::span const host(reinterpret_cast<float*>(pinned.data()), data.size());
    std::vector<double> ours, theirs;
    for (int round = 0; round <= rounds; ++round) {
      double const a = time_of(comm, gpu, [&] { all_reduce(ranks, data); });
      double const b = time_of(comm, gpu, [&] {
        gpu.copy({}, host.data(), data.data(), bytes);
        gpu.wait({}, deadline::after(std::chrono::seconds{60}));
        all_reduce(comm, host);
        gpu.copy({}, data.data(), host.data(), bytes);
      });
      if (round == 0) continue;  // this round only touches the memory
      ours.push_back(a);
      theirs.push_back(b);
    }
    double const a = median(ours), b = median(theirs);
    comm.main_only([&] {
      std::printf("| %zu | %.1f | %.1f | **%.2f** |\n", bytes, a, b, b / a);
      if (bytes * 4 > largest)
        std::printf(
            "result: all_reduce of %zu B by way of the host, between 2: copies and the host take %.2f of our time\n",
            bytes, b / a);
    });
  }
}

template <class Comm>
void find_limit(Comm& comm) {
  cuda_device const gpu = device_of(comm);
  cuda_staged ranks(comm, gpu);
  constexpr std::size_t most = std::size_t{2} << 20;
  device_array<cuda_device, float> const array(gpu, most / sizeof(float));
  detail::expect_cuda(cudaMemsetAsync(array.data(), 0, most), "cudaMemsetAsync");
  std::vector<bench::two_times> all;
  for (std::size_t bytes = std::size_t{4} << 10; bytes <= most; bytes *= 2) {
    std::span const data(array.data(), bytes / sizeof(float));
    std::vector<double> times[2];
    for (int round = 0; round <= rounds; ++round)
      for (int k : {0, 1}) {
        auto const by = k == 0 ? algorithm_id::one_shot : algorithm_id::two_shot;
        double const us = time_of(comm, gpu, [&] { all_reduce(ranks, data, sum{}, {.algorithm = by}); });
        if (round > 0) times[k].push_back(us);
      }
    all.push_back({bytes * static_cast<std::size_t>(comm.size()), median(times[0]), median(times[1])});
  }
  comm.main_only([&] { bench::print_limit(limit_name, bench::best_limit(all)); });
}

}  // namespace

int main() {
  if (testing::cuda_device_count_by_child() == 0) {
    std::puts("skipped: there is no GPU");
    return 77;
  }
  try {
    run_local(2, [](auto& comm) { compare(comm); });
    std::fflush(stdout);
    std::string const why = bench::why_no_limit(limit_name, ranks_of_limit, testing::cuda_device_count_by_child());
    if (why.empty()) run_local(ranks_of_limit, [](auto& comm) { find_limit(comm); });
    else std::printf("result: %s\n", why.c_str());
  } catch (std::exception const& e) {
    std::printf("FAILED: %s\n", e.what());
    return 1;
  }
  return 0;
}
