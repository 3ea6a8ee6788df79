// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// How fast a GPU combines arrays, beside a copy on the device that moves as many bytes, by turns; one fused pass beside
// the separate passes that Thrust makes of it; and all_reduce among virtual ranks, by one launch and by algorithms.
//
//   nvcc -std=c++20 -O2 -arch=native -Iinclude bench/cuda.cu -o bench_cuda && ./bench_cuda
#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <span>
#include <string>
#include <thrust/execution_policy.h>
#include <thrust/transform.h>
#include <type_traits>
#include <vector>

#include "tutti/cuda.cuh"

namespace {

using namespace tutti;

constexpr int rounds = 20, most_arrays = 8;

class timer {
 public:
  timer() {
    detail::expect_cuda(cudaEventCreate(&begin_), "cudaEventCreate");
    detail::expect_cuda(cudaEventCreate(&end_), "cudaEventCreate");
  }
  timer(timer const&) = delete;
  timer& operator=(timer const&) = delete;
  ~timer() {
    static_cast<void>(cudaEventDestroy(begin_));
    static_cast<void>(cudaEventDestroy(end_));
  }

  // Microseconds of the work that f gives to the default stream.
  template <class F>
  float operator()(cuda_device const& gpu, F const& f) const {
    detail::expect_cuda(cudaEventRecord(begin_), "cudaEventRecord");
    f();
    detail::expect_cuda(cudaEventRecord(end_), "cudaEventRecord");
    gpu.wait({}, deadline::after(std::chrono::seconds{30}));
    float milliseconds = 0;
    detail::expect_cuda(cudaEventElapsedTime(&milliseconds, begin_, end_), "cudaEventElapsedTime");
    return milliseconds * 1000;
  }

 private:
  cudaEvent_t begin_ = nullptr, end_ = nullptr;
};

float median(std::vector<float> values) {
  auto const middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

struct comparison {
  float ours, other;
};
// The first turn of each is not counted.
template <class Ours, class Other>
comparison compare(cuda_device const& gpu, Ours const& ours, Other const& other) {
  timer const time;
  std::vector<float> a, b;
  for (int round = 0; round <= rounds; ++round) {
    float const mine = time(gpu, ours), theirs = time(gpu, other);
    if (round == 0) continue;
    a.push_back(mine);
    b.push_back(theirs);
  }
  return {median(a), median(b)};
}

template <class T>
std::vector<device_array<cuda_device, T>> arrays_of_zeros(cuda_device const& gpu, int count, std::size_t n) {
  std::vector<device_array<cuda_device, T>> out;
  for (int k = 0; k < count; ++k) {
    out.emplace_back(gpu, n);
    detail::expect_cuda(cudaMemsetAsync(out.back().data(), 0, n * sizeof(T)), "cudaMemsetAsync");
  }
  return out;
}

template <class T>
void against_copy(cuda_device const& gpu, char const* name, std::size_t bytes) {
  std::size_t const n = bytes / sizeof(T);
  auto const from = arrays_of_zeros<T>(gpu, most_arrays, n);
  auto const to = arrays_of_zeros<T>(gpu, 1, n);
  for (std::size_t const fan_in : {2u, 4u, 8u}) {
    std::size_t const moved = (fan_in + 1) * n * sizeof(T);
    auto const copy_from = arrays_of_zeros<std::byte>(gpu, 1, moved / 2),
               copy_to = arrays_of_zeros<std::byte>(gpu, 1, moved / 2);
    std::vector<T const*> sources;
    for (std::size_t k = 0; k < fan_in; ++k) sources.push_back(from[k].data());
    T* const destinations[] = {to[0].data()};
    auto const [ours, copy] = compare(
        gpu,
        [&] { cuda_combine(gpu, {}, std::span<T const* const>(sources), std::span<T* const>(destinations), n, sum{}); },
        [&] { gpu.copy({}, copy_to[0].data(), copy_from[0].data(), moved / 2); });
    std::printf("| %s | %zu | %zu MiB | %.1f | %.0f | **%.2f** |\n", name, fan_in, bytes >> 20, ours,
                static_cast<double>(moved) / ours / 1e3, copy / ours);
  }
}

struct widen {
  float factor;
  __device__ float operator()(bfloat16 x) const { return float{x} * factor; }
};
struct widen_and_add {
  float factor;
  __device__ float operator()(float all, bfloat16 x) const { return all + float{x} * factor; }
};
struct narrow {
  __device__ bfloat16 operator()(float x) const { return bfloat16(x); }
};

// bfloat16 arrays, scaled and added up in float, and the result in bfloat16 again.
void against_thrust(cuda_device const& gpu, std::size_t bytes) {
  std::size_t const n = bytes / sizeof(bfloat16);
  auto const from = arrays_of_zeros<bfloat16>(gpu, most_arrays, n);
  auto const to = arrays_of_zeros<bfloat16>(gpu, 1, n);
  auto const between = arrays_of_zeros<float>(gpu, 1, n);
  for (std::size_t const fan_in : {2u, 4u, 8u}) {
    std::vector<bfloat16 const*> sources;
    for (std::size_t k = 0; k < fan_in; ++k) sources.push_back(from[k].data());
    bfloat16* const destinations[] = {to[0].data()};
    auto const [ours, thrusts] = compare(
        gpu,
        [&] {
          cuda_combine(gpu, {}, std::span<bfloat16 const* const>(sources), std::span<bfloat16* const>(destinations), n,
                       fused{sum{}, scale{0.125f}});
        },
        [&] {
          auto const policy = thrust::cuda::par_nosync.on(cudaStream_t{});
          float* const all = between[0].data();
          thrust::transform(policy, sources[0], sources[0] + n, all, widen{0.125f});
          for (std::size_t k = 1; k < fan_in; ++k)
            thrust::transform(policy, all, all + n, sources[k], all, widen_and_add{0.125f});
          thrust::transform(policy, all, all + n, destinations[0], narrow{});
        });
    std::printf("| bfloat16, scaled | %zu | %zu MiB | %.1f | %.1f | **%.2f** |\n", fan_in, bytes >> 20, ours, thrusts,
                thrusts / ours);
  }
}

// Eight ranks, from 8 bytes to 1 MiB each: independent jobs, then blocks that send each other messages.
void all_reduces(cuda_device const& gpu) {
  constexpr int size = 8;
  constexpr std::size_t most = std::size_t{1} << 20;
  auto const memory = arrays_of_zeros<float>(gpu, size, most / sizeof(float));
  device_channels channels(gpu, size);
  cuda_local const ranks(channels);
  timer const time;
  for (std::size_t bytes = 8; bytes <= most; bytes *= 8) {
    std::vector<std::span<float>> data;
    for (auto const& x : memory) data.emplace_back(x.data(), bytes / sizeof(float));
    auto const us = [&](auto const& call) {
      std::vector<float> all;
      for (int round = 0; round <= rounds; ++round) {
        float const one = time(gpu, call);
        if (round > 0) all.push_back(one);
      }
      return median(all);
    };
    std::printf("| %zu | %.1f |", bytes, us([&] { all_reduce(ranks, data, data); }));
    if (bytes <= channels.map().packet_bytes())
      std::printf(" %.1f |",
                  us([&] { all_reduce<one_shot>(ranks, data, data, sum{}, {.protocol = protocol::packet}); }));
    else std::printf(" |");
    std::printf(" %.1f | %.1f |\n", us([&] { all_reduce<ring>(ranks, data, data); }),
                us([&] { all_reduce<two_shot>(ranks, data, data); }));
  }
}

}  // namespace

int main() {
  if (cuda_device_count() == 0) {
    std::puts("skipped: there is no GPU");
    return 77;
  }
  try {
    cuda_device const gpu;
    std::puts("us: median. GB/s: bytes read and written. ratio: time of a copy that moves as many, over ours.\n");
    std::puts("| elements | arrays | of each | us | GB/s | ratio |\n|---|---:|---:|---:|---:|---:|");
    for (std::size_t const bytes : {std::size_t{1} << 20, std::size_t{16} << 20, std::size_t{256} << 20}) {
      against_copy<float>(gpu, "float", bytes);
      against_copy<bfloat16>(gpu, "bfloat16", bytes);
      against_copy<float8_e4m3>(gpu, "float8_e4m3", bytes);
    }
    std::puts("\n| elements | arrays | of each | us | Thrust, us | ratio |\n|---|---:|---:|---:|---:|---:|");
    against_thrust(gpu, std::size_t{16} << 20);
    against_thrust(gpu, std::size_t{256} << 20);
    std::puts("\nall_reduce of floats among 8 virtual ranks, us.\n");
    std::puts("| bytes | one launch of jobs | packets | ring | two_shot |\n|---:|---:|---:|---:|---:|");
    all_reduces(gpu);
  } catch (std::exception const& e) {
    std::printf("FAILED: %s\n", e.what());
    return 1;
  }
}
