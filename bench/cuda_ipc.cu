// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The time of all_reduce of device memory among processes that share a GPU or, if there are enough, have one each: with cuda_ipc, with
// cuda_ipc in a graph, and through the host (copy there, all_reduce over shared memory, copy back). Contenders take turns. It ends with the
// sizes up to which packets and one_shot are faster among processes with a GPU each, as lines of a tuning table.
//
//   nvcc -std=c++20 -O2 -arch=native -Iinclude bench/cuda_ipc.cu -o bench_cuda_ipc && ./bench_cuda_ipc
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <exception>
#include <span>
#include <string>
#include <vector>

#include "../tests/cuda/captured.cuh"
#include "../tests/support/gpu_count.cuh"
#include "crossover.hpp"
#include "tutti/cuda.cuh"
#include "tutti/device/cuda/errors.cuh"
#include "tutti/tutti.hpp"

namespace {

using namespace tutti;
using namespace tutti::detail;

constexpr int rounds = 31, calls = 20;
constexpr char const* head =
    "| ranks | bytes | us | registered | in a graph | by the host | ratio |\n|---:|---:|---:|---:|---:|---:|---:|\n";

// Microseconds per call at the slowest rank, the median of rounds. Long calls have fewer rounds.
template <class Comm, class F>
double microseconds(Comm& comm, F const& f) {
  std::vector<double> all;
  double sum_of_all = 0;
  for (int round = 0; round < rounds && (all.size() < 3 || sum_of_all * calls < 100'000); ++round) {
    barrier(comm);
    auto const begin = std::chrono::steady_clock::now();
    f();
    std::chrono::duration<double, std::micro> const time = std::chrono::steady_clock::now() - begin;
    double slowest[] = {time.count() / calls};
    all_reduce(comm, std::span(slowest), tutti::max{});
    if (round == 0) continue;
    all.push_back(slowest[0]);
    sum_of_all += slowest[0];
  }
  auto const middle = all.begin() + static_cast<std::ptrdiff_t>(all.size() / 2);
  std::nth_element(all.begin(), middle, all.end());
  return *middle;
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
  cuda_ipc ranks(comm, gpu);
  cudaStream_t const stream = gpu.make_stream();
  comm.main_only(
      [&] { std::printf("%d ranks on %d GPUs\n\n%s", comm.size(), std::min(cuda_device_count(), comm.size()), head); });
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
      for (int i = 0; i < calls; ++i) all_reduce(ranks, registered, data, sum{}, {.stream = stream, .symmetric = true});
      gpu.wait(stream, until());
    });
    testing::captured const graph(stream, [&] {
      for (int i = 0; i < calls; ++i) all_reduce(ranks, data, sum{}, {.stream = stream});
    });
    double const graphs = microseconds(comm, [&] {
      graph.replay();
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
    if (comm.is_main() && (bytes == 8 || bytes * 8 > (std::size_t{1} << 20)))
      std::printf("result: all_reduce of %zu B among %d processes: %.1f us, %.1f in a graph, %.1f by the host\n", bytes,
                  comm.size(), ours, graphs, host);
    std::fflush(stdout);
    static_cast<void>(cudaFreeHost(pinned));
  }
  gpu.end_stream(stream);
}

// Compares two functions of a stream and a message, each of which makes a call, by graphs of calls: the work on the GPUs alone.
template <class Comm, class Small, class Large>
void find_limit(Comm& comm, char const* name, std::size_t least, std::size_t most, Small const& small,
                Large const& large) {
  cuda_device const gpu = device_of(comm);
  device_array<cuda_device, float> const data(gpu, most / sizeof(float));
  detail::expect_cuda(cudaMemsetAsync(data.data(), 0, most), "cudaMemsetAsync");
  gpu.wait({}, deadline::after(std::chrono::seconds{30}));
  cuda_ipc ranks(comm, gpu);
  device_stream<cuda_device> const stream(gpu);
  auto const time_of = [&](auto const& call, std::size_t bytes) {
    std::span const some(data.data(), bytes / sizeof(float));
    testing::captured const graph(stream.get(), [&] {
      for (int i = 0; i < calls; ++i) call(ranks, some, stream.get());
    });
    return microseconds(comm, [&] {
      graph.replay();
      gpu.wait(stream.get(), deadline::after(std::chrono::seconds{30}));
    });
  };
  std::vector<bench::two_times> all;
  for (std::size_t bytes = least; bytes <= most; bytes *= 2)
    all.push_back({bytes, time_of(small, bytes), time_of(large, bytes)});
  comm.main_only([&] {
    std::printf("\n`%s`, us a call\n\n| bytes | up to the limit | above |\n|---:|---:|---:|\n", name);
    for (auto const& one : all) std::printf("| %zu | %.1f | %.1f |\n", one.bytes, one.small, one.large);
    bench::print_limit(name, bench::best_limit(all));
  });
}

void find_limits(int gpus) {
  auto const by_one_shot = [](auto& ranks, auto& data, cudaStream_t stream) {
    all_reduce(ranks, data, sum{}, {.stream = stream, .algorithm = algorithm_id::one_shot});
  };
  struct {
    char const* name;
    int ranks;
  } const limits[]{{"processes one_shot_of_2", 2}, {"processes one_shot_of_4", 4}, {"processes one_shot", 8}};
  for (auto const& [name, ranks] : limits) {
    if (std::string const why = bench::why_no_limit(name, ranks, gpus); !why.empty()) {
      std::printf("result: %s\n", why.c_str());
      std::fflush(stdout);  // or every forked rank would print it too
      continue;
    }
    run_local(ranks, [&](auto& comm) {
      find_limit(comm, name, std::size_t{16} << 10, std::size_t{8} << 20, by_one_shot,
                 [](auto& all, auto& data, cudaStream_t stream) {
                   all_reduce(all, data, sum{}, {.stream = stream, .algorithm = algorithm_id::two_shot});
                 });
    });
  }
  char const* const name = "processes packets";
  int const ranks = gpus >= 8 ? 8 : gpus >= 4 ? 4 : 2;
  if (std::string const why = bench::why_no_limit(name, ranks, gpus); !why.empty())
    std::printf("result: %s\n", why.c_str());
  else
    run_local(ranks, [&](auto& comm) {
      // A call with a prologue or an epilogue sends no packets.
      find_limit(
          comm, name, 8, std::size_t{16} << 10,
          [](auto& all, auto& data, cudaStream_t stream) {
            all_reduce(all, data, sum{}, {.stream = stream, .protocol = protocol::packet});
          },
          [](auto& all, auto& data, cudaStream_t stream) {
            all_reduce(all, data, fused{sum{}}, {.stream = stream, .algorithm = algorithm_id::one_shot});
          });
    });
}

}  // namespace

int main() {
  int const gpus = testing::cuda_device_count_by_child();
  if (gpus == 0) {
    std::puts("skipped: there is no GPU");
    return 77;
  }
  try {
    std::printf("us a call, %d of them in a row, the slowest rank's median. ratio: by the host over ours.\n\n", calls);
    for (int const ranks : {2, 4}) run_local(ranks, [](auto& comm) { compare(comm); });
    std::fflush(stdout);
    find_limits(gpus);
  } catch (std::exception const& e) {
    std::printf("FAILED: %s\n", e.what());
    return 1;
  }
  return 0;
}
