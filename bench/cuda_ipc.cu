// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// How long all_reduce of device memory takes among processes that share one GPU: by cuda_ipc, by cuda_ipc in a graph, and by way
// of the host (copy there, all_reduce over shared memory, copy back), by turns.
//
//   nvcc -std=c++20 -O2 -arch=native -Iinclude bench/cuda_ipc.cu -o bench_cuda_ipc && ./bench_cuda_ipc
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <exception>
#include <span>
#include <vector>

#include "tutti/cuda.cuh"
#include "tutti/tutti.hpp"

namespace {

using namespace tutti;

constexpr int rounds = 31, calls = 20;

// Microseconds a call, the median of rounds; the slowest rank counts.
template <class Comm, class F>
double microseconds(Comm& comm, F const& f) {
  std::vector<double> all;
  for (int round = 0; round < rounds; ++round) {
    barrier(comm);
    auto const begin = std::chrono::steady_clock::now();
    f();
    std::chrono::duration<double, std::micro> const time = std::chrono::steady_clock::now() - begin;
    double slowest[] = {time.count() / calls};
    all_reduce(comm, std::span(slowest), tutti::max{});
    if (round > 0) all.push_back(slowest[0]);
  }
  auto const middle = all.begin() + static_cast<std::ptrdiff_t>(all.size() / 2);
  std::nth_element(all.begin(), middle, all.end());
  return *middle;
}

template <class Comm>
void compare(Comm& comm) {
  cuda_device const gpu;
  cuda_ipc ranks(comm, gpu);
  cudaStream_t stream = nullptr;
  detail::expect_cuda(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
  auto const until = [] { return deadline::after(std::chrono::seconds{30}); };
  for (std::size_t bytes = 8; bytes <= std::size_t{1} << 20; bytes *= 8) {
    std::size_t const n = bytes / sizeof(float);
    device_array<cuda_device, float> const data(gpu, n);
    auto const registered = ranks.template allocate<float>(n);
    detail::expect_cuda(cudaMemsetAsync(data.data(), 0, bytes, stream), "cudaMemsetAsync");
    float* pinned = nullptr;
    detail::expect_cuda(cudaMallocHost(&pinned, bytes), "cudaMallocHost");

    double const ours = microseconds(comm, [&] {
      for (int i = 0; i < calls; ++i) all_reduce(ranks, data, sum{}, {.stream = stream});
      gpu.wait(stream, until());
    });
    double const in_place = microseconds(comm, [&] {
      for (int i = 0; i < calls; ++i) all_reduce(ranks, registered, data, sum{}, {.stream = stream});
      gpu.wait(stream, until());
    });
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t executable = nullptr;
    detail::expect_cuda(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "cudaStreamBeginCapture");
    for (int i = 0; i < calls; ++i) all_reduce(ranks, data, sum{}, {.stream = stream});
    detail::expect_cuda(cudaStreamEndCapture(stream, &graph), "cudaStreamEndCapture");
    detail::expect_cuda(cudaGraphInstantiate(&executable, graph, 0), "cudaGraphInstantiate");
    double const graphs = microseconds(comm, [&] {
      detail::expect_cuda(cudaGraphLaunch(executable, stream), "cudaGraphLaunch");
      gpu.wait(stream, until());
    });
    double const host = microseconds(comm, [&] {
      for (int i = 0; i < calls; ++i) {
        gpu.copy(stream, pinned, data.data(), bytes);
        detail::expect_cuda(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
        all_reduce(comm, std::span(pinned, n));
        gpu.copy(stream, data.data(), pinned, bytes);
      }
      gpu.wait(stream, until());
    });
    if (comm.is_main())
      std::printf("| %d | %zu | %.1f | %.1f | %.1f | %.1f | **%.2f** |\n", comm.size(), bytes, ours, in_place, graphs,
                  host, host / ours);
    std::fflush(stdout);
    static_cast<void>(cudaGraphExecDestroy(executable));
    static_cast<void>(cudaGraphDestroy(graph));
    static_cast<void>(cudaFreeHost(pinned));
  }
  static_cast<void>(cudaStreamDestroy(stream));
}

}  // namespace

int main() {
  if (cuda_device_count_by_child() == 0) {
    std::puts("skipped: there is no GPU");
    return 77;
  }
  try {
    std::printf("us a call, %d of them in a row, the slowest rank's median. ratio: by the host over ours.\n\n", calls);
    std::puts(
        "| ranks | bytes | us | registered | in a graph | by the host | ratio |\n|---:|---:|---:|---:|---:|---:|---:|");
    for (int const ranks : {2, 4}) run_local(ranks, [](auto& comm) { compare(comm); });
  } catch (std::exception const& e) {
    std::printf("FAILED: %s\n", e.what());
    return 1;
  }
}
