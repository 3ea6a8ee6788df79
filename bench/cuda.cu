// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// How fast a GPU combines arrays, compared with a device copy of as many bytes; one fused pass, compared with separate passes of Thrust
// and one pass of CUB; and all_reduce among virtual ranks in one launch, with a kernel per pair, with algorithms, and in a graph. Contenders
// take turns. It ends with the most important results.
//
//   nvcc -std=c++20 -O2 -arch=native -Iinclude bench/cuda.cu -o bench_cuda && ./bench_cuda
#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <exception>
#include <functional>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <thrust/execution_policy.h>
#include <thrust/transform.h>
#include <utility>
#include <vector>
#if __has_include(<cub/device/device_transform.cuh>)  // CUDA 12.8 and later
#include <cub/device/device_transform.cuh>
#include <cuda/std/tuple>
#define TUTTI_BENCH_CUB 1
#else
#define TUTTI_BENCH_CUB 0
#endif

#include "../tests/cuda/captured.cuh"
#include "tutti/cuda.cuh"
#include "tutti/device/cuda/errors.cuh"

namespace {

using namespace tutti;
using namespace tutti::detail;

constexpr int rounds = 20, max_arrays = 8;

// The results that are printed at the end.
std::vector<std::string> results;

std::string two_digits(double x) {
  char out[32];
  std::snprintf(out, sizeof out, "%.2f", x);
  return out;
}

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

  // The time in microseconds of the work that f adds to the stream.
  template <class F>
  float operator()(cuda_device const& gpu, F const& f, cudaStream_t stream = {}) const {
    detail::expect_cuda(cudaEventRecord(begin_, stream), "cudaEventRecord");
    f();
    detail::expect_cuda(cudaEventRecord(end_, stream), "cudaEventRecord");
    gpu.wait(stream, deadline::after(std::chrono::seconds{30}));
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

// The times of several methods, which take turns. The first turn of each does not count.
template <std::size_t Ways>
using ways = std::array<std::function<void()>, Ways>;
template <std::size_t Ways>
std::array<float, Ways> compare(cuda_device const& gpu, ways<Ways> const& all, cudaStream_t stream = {}) {
  timer const time;
  std::array<std::vector<float>, Ways> times;
  for (int round = 0; round <= rounds; ++round)
    for (std::size_t k = 0; k < Ways; ++k) {
      float const one = time(gpu, all[k], stream);
      if (round > 0) times[k].push_back(one);
    }
  std::array<float, Ways> out{};
  for (std::size_t k = 0; k < Ways; ++k) out[k] = median(times[k]);
  return out;
}

// The same of their work on the GPU alone: of each, a graph that repeats it.
template <std::size_t Ways>
std::array<float, Ways> compare_work(cuda_device const& gpu, ways<Ways> const& all, std::size_t bytes,
                                     cudaStream_t stream) {
  int const calls = bytes < std::size_t{64} << 20 ? 20 : 2;
  std::vector<std::unique_ptr<testing::captured>> graphs;
  ways<Ways> replays;
  for (std::size_t k = 0; k < Ways; ++k) {
    graphs.push_back(std::make_unique<testing::captured>(stream, [&] {
      for (int i = 0; i < calls; ++i) all[k]();
    }));
    replays[k] = [&graph = *graphs.back()] { graph.replay(); };
  }
  std::array<float, Ways> out = compare(gpu, replays, stream);
  for (float& time : out) time /= static_cast<float>(calls);
  return out;
}

// Arrays of random elements between 1 and 2: zeros cost less energy, and GPUs slow down to save it.
template <class T>
std::vector<device_array<cuda_device, T>> random_arrays(cuda_device const& gpu, int count, std::size_t n) {
  static std::vector<T> const some = [] {
    std::minstd_rand random;
    std::vector<T> out(std::size_t{1} << 20);
    for (T& x : out) x = T(1 + static_cast<float>(random() % 4096) / 4096);
    return out;
  }();
  std::vector<device_array<cuda_device, T>> out;
  for (int k = 0; k < count; ++k) {
    out.emplace_back(gpu, n);
    T* const to = out.back().data();
    for (std::size_t at = 0; at < n; at += some.size())
      gpu.copy({}, to + at, at == 0 ? some.data() : to, std::min(some.size(), n - at) * sizeof(T));
  }
  return out;
}

constexpr std::size_t fan_ins[] = {1, 2, 4, 8};

// Compares a pass over arrays with the bandwidth of the GPU's memory. With `last`, the comparison becomes a result.
template <class T>
void against_copy(cuda_device const& gpu, char const* name, std::size_t bytes, bool last) {
  std::size_t const n = bytes / sizeof(T);
  auto const from = random_arrays<T>(gpu, max_arrays, n);
  auto const to = random_arrays<T>(gpu, 1, n);
  device_stream<cuda_device> const stream(gpu);
  std::string result = join({"result: combine, in % of a copy: ", name});
  for (std::size_t const fan_in : fan_ins) {
    std::size_t const moved = (fan_in + 1) * n * sizeof(T);
    auto const copy_from = random_arrays<T>(gpu, 1, moved / 2 / sizeof(T)),
               copy_to = random_arrays<T>(gpu, 1, moved / 2 / sizeof(T));
    std::vector<T const*> sources;
    for (std::size_t k = 0; k < fan_in; ++k) sources.push_back(from[k].data());
    T* const destinations[] = {to[0].data()};
    auto const [ours, copy] =
        compare_work<2>(gpu,
                        {[&] {
                           cuda_combine(gpu, stream.get(), std::span<T const* const>(sources),
                                        std::span<T* const>(destinations), n, sum{});
                         },
                         [&] { gpu.copy(stream.get(), copy_to[0].data(), copy_from[0].data(), moved / 2); }},
                        moved, stream.get());
    std::printf("| %s | %zu | %zu MiB | %.1f | %.0f | **%.0f** |\n", name, fan_in, bytes >> 20, ours,
                static_cast<double>(moved) / ours / 1e3, 100 * copy / ours);
    result += join({", ", fan_in, " arrays ", std::lround(100 * copy / ours)});
  }
  if (last) results.push_back(result);
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
#if TUTTI_BENCH_CUB
template <std::size_t N, std::size_t... K>
auto tuple_of(std::array<bfloat16 const*, N> const& all, std::index_sequence<K...>) {
  return cuda::std::make_tuple(all[K]...);
}
#endif
struct scaled_sum {
  float factor;
  template <class... X>
  __device__ bfloat16 operator()(X... x) const {
    return bfloat16(((float{x} * factor) + ...));
  }
};

// bfloat16 arrays are scaled and added in float, and the result is converted to bfloat16: in one pass, in Thrust's passes, and in one pass
// of CUB where that is available.
template <std::size_t FanIn>
void against_others(cuda_device const& gpu, std::size_t bytes, bool last) {
  std::size_t const n = bytes / sizeof(bfloat16);
  auto const from = random_arrays<bfloat16>(gpu, FanIn, n);
  auto const to = random_arrays<bfloat16>(gpu, 1, n);
  auto const between = random_arrays<float>(gpu, 1, n);
  std::array<bfloat16 const*, FanIn> sources;
  for (std::size_t k = 0; k < FanIn; ++k) sources[k] = from[k].data();
  bfloat16* const destinations[] = {to[0].data()};
  device_stream<cuda_device> const stream(gpu);
  auto const [ours, thrusts, cubs] = compare_work<3>(
      gpu,
      {[&] {
         cuda_combine(gpu, stream.get(), std::span<bfloat16 const* const>(sources),
                      std::span<bfloat16* const>(destinations), n, fused{sum{}, scale{0.125f}});
       },
       [&] {
         auto const policy = thrust::cuda::par_nosync.on(stream.get());
         float* const all = between[0].data();
         thrust::transform(policy, sources[0], sources[0] + n, all, widen{0.125f});
         for (std::size_t k = 1; k < FanIn; ++k)
           thrust::transform(policy, all, all + n, sources[k], all, widen_and_add{0.125f});
         thrust::transform(policy, all, all + n, destinations[0], narrow{});
       },
       [&] {
#if TUTTI_BENCH_CUB
         detail::expect_cuda(
             cub::DeviceTransform::Transform(tuple_of(sources, std::make_index_sequence<FanIn>{}), destinations[0],
                                             static_cast<long>(n), scaled_sum{0.125f}, stream.get()),
             "cub::DeviceTransform::Transform");
#endif
       }},
      bytes * FanIn, stream.get());
  std::printf("| %zu | %zu MiB | %.1f | %.1f | **%.2f** | ", FanIn, bytes >> 20, ours, thrusts, thrusts / ours);
  if (TUTTI_BENCH_CUB) std::printf("%.1f | **%.2f** |\n", cubs, cubs / ours);
  else std::printf("none | |\n");
  if (!last) return;
  std::string result =
      join({"result: ", FanIn, " bfloat16 arrays, scaled: passes of Thrust take ", two_digits(thrusts / ours)});
  if (TUTTI_BENCH_CUB) result += join({", a pass of CUB ", two_digits(cubs / ours)});
  results.push_back(result + " of our time");
}

// Eight ranks with 8 bytes to 1 MiB each: independent jobs (one_shot), a kernel per pair of arrays and copies, copies alone as a bound, and
// blocks that exchange messages.
void all_reduces(cuda_device const& gpu) {
  constexpr int size = 8;
  constexpr std::size_t most = std::size_t{1} << 20;
  auto const memory = random_arrays<float>(gpu, size, most / sizeof(float)),
             others = random_arrays<float>(gpu, size, most / sizeof(float));
  device_channels channels(gpu, size);
  cuda_local const ranks(channels);
  double against_pairs = 0;
  int sizes = 0;
  for (std::size_t bytes = 8; bytes <= most; bytes *= 2) {
    std::size_t const n = bytes / sizeof(float);
    std::vector<std::span<float>> data;
    for (auto const& x : memory) data.emplace_back(x.data(), n);
    auto const pairs = [&] {
      float* const to[] = {data[0].data()};
      for (std::size_t r = 1; r < size; ++r) {
        float const* const two[] = {data[0].data(), data[r].data()};
        cuda_combine(gpu, {}, std::span<float const* const>(two), std::span<float* const>(to), n, sum{});
      }
      for (std::size_t r = 1; r < size; ++r) gpu.copy({}, data[r].data(), data[0].data(), bytes);
    };
    auto const copies = [&] {
      for (std::size_t r = 0; r < size; ++r) gpu.copy({}, others[r].data(), data[r].data(), bytes);
    };
    bool const fits = bytes <= channels.map().packet_bytes();
    auto const one_shot_by = [&](protocol how) { all_reduce<one_shot>(ranks, data, data, sum{}, {.protocol = how}); };
    auto const t = compare<7>(
        gpu, {[&] { all_reduce(ranks, data, data); }, pairs, copies,
              [&] { one_shot_by(fits ? protocol::packet : protocol::staged); }, [&] { one_shot_by(protocol::staged); },
              [&] { all_reduce<ring>(ranks, data, data); }, [&] { all_reduce<two_shot>(ranks, data, data); }});
    std::printf("| %zu | %.1f | %.1f | **%.2f** | %.1f |", bytes, t[0], t[1], t[1] / t[0], t[2]);
    if (fits) std::printf(" %.1f |", t[3]);
    else std::printf(" |");
    std::printf(" %.1f | %.1f | %.1f |\n", t[4], t[5], t[6]);
    against_pairs += std::log(t[1] / t[0]);
    ++sizes;
  }
  results.push_back(join({"result: all_reduce of 8 virtual ranks, 8 B to 1 MiB: a kernel a pair takes ",
                          two_digits(std::exp(against_pairs / sizes)), " of our time, in the geometric mean"}));
}

// The cost of a call in a graph, and on a stream.
void graphs(cuda_device const& gpu) {
  constexpr int calls = 20;
  device_stream<cuda_device> const stream(gpu);
  cuda_local const ranks(gpu, 8);
  for (std::size_t const bytes : {std::size_t{8}, std::size_t{64} << 10}) {
    auto const memory = random_arrays<float>(gpu, 8, bytes / sizeof(float));
    gpu.wait({}, deadline::after(std::chrono::seconds{30}));
    auto const all = [&] {
      for (int i = 0; i < calls; ++i) all_reduce(ranks, memory, memory, sum{}, {.stream = stream.get()});
    };
    testing::captured const graph(stream.get(), all);
    auto const [launched, replayed] = compare<2>(gpu, {all, [&] { graph.replay(); }}, stream.get());
    std::printf("| %zu | %.2f | %.2f |\n", bytes, launched / calls, replayed / calls);
    results.push_back(join({"result: all_reduce of 8 virtual ranks, ", bytes, " B: ", two_digits(launched / calls),
                            " us launched, ", two_digits(replayed / calls), " us in a graph"}));
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
    std::puts("us: median. GB/s: bytes read and written. %: time of a copy that moves as many, over ours.\n");
    std::puts("| elements | arrays | of each | us | GB/s | % of a copy |\n|---|---:|---:|---:|---:|---:|");
    for (std::size_t const mib : {2, 16, 256, 1024}) {
      against_copy<float>(gpu, "float", mib << 20, mib == 1024);
      against_copy<bfloat16>(gpu, "bfloat16", mib << 20, mib == 1024);
      against_copy<float8_e4m3>(gpu, "float8_e4m3", mib << 20, mib == 1024);
    }
    std::puts("\nbfloat16, scaled and added up in float. ratio: their time over ours.\n");
    std::puts("| arrays | of each | us | Thrust, us | ratio | CUB, us | ratio |\n|---:|---:|---:|---:|---:|---:|---:|");
    for (std::size_t const mib : {16, 256}) {
      against_others<2>(gpu, mib << 20, mib == 256);
      against_others<4>(gpu, mib << 20, mib == 256);
      against_others<8>(gpu, mib << 20, mib == 256);
    }
    std::puts("\nall_reduce of floats among 8 virtual ranks, us.\n");
    std::puts(
        "| bytes | one launch of jobs | a kernel a pair | ratio | copies | packets | one_shot, staged | ring | "
        "two_shot |\n|---:|---:|---:|---:|---:|---:|---:|---:|---:|");
    all_reduces(gpu);
    std::puts("\nThe same, us a call, 20 of them in a row.\n\n| bytes | launched | in a graph |\n|---:|---:|---:|");
    graphs(gpu);
    std::puts("");
    for (std::string const& line : results) std::puts(line.c_str());
  } catch (std::exception const& e) {
    std::printf("FAILED: %s\n", e.what());
    return 1;
  }
}
