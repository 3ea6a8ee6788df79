// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The size up to which all_reduce among virtual ranks is faster by packets than by slices, on one GPU and, if there are more, with a rank on
// each, as lines of a tuning table. Both take turns.
//
//   nvcc -std=c++20 -O2 -arch=native -Iinclude bench/cuda_packets.cu -o bench_cuda_packets && ./bench_cuda_packets
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <exception>
#include <vector>

#include "crossover.hpp"
#include "median.hpp"
#include "tutti/cuda.cuh"

namespace {

using namespace tutti;
using namespace tutti::detail;

constexpr int rounds = 31, calls = 20;

// Microseconds of a call, until its work on all GPUs has completed.
template <class Ranks, class Buffers>
double time_of(Ranks const& ranks, Buffers const& data, protocol how) {
  auto const began = std::chrono::steady_clock::now();
  for (int i = 0; i < calls; ++i) all_reduce<one_shot>(ranks, data, data, sum{}, {.protocol = how});
  ranks.on().wait({}, deadline::after(std::chrono::seconds{30}));
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - began).count() / calls;
}

template <class Channels>
void find_limit(char const* name, Channels& channels) {
  cuda_local const ranks(channels);
  std::printf("`%s`, %d ranks, us a call\n\n| bytes | packets | slices |\n|---:|---:|---:|\n", name, ranks.size());
  std::vector<bench::two_times> all;
  for (std::size_t bytes = 8; bytes <= channels.map().packet_bytes(); bytes *= 2) {
    std::vector<float> const zeros(bytes / sizeof(float));
    std::vector<device_array<cuda_device, float>> data;
    for (int r = 0; r < ranks.size(); ++r) {
      data.emplace_back(ranks.on(r), zeros.size());
      ranks.on(r).copy({}, data.back().data(), zeros.data(), bytes);
      ranks.on(r).wait({}, deadline::after(std::chrono::seconds{30}));
    }
    std::vector<double> packets, slices;
    for (int round = 0; round <= rounds; ++round) {
      double const a = time_of(ranks, data, protocol::packet), b = time_of(ranks, data, protocol::staged);
      if (round == 0) continue;
      packets.push_back(a);
      slices.push_back(b);
    }
    all.push_back({bytes, median(packets), median(slices)});
    std::printf("| %zu | %.1f | %.1f |\n", bytes, all.back().small, all.back().large);
  }
  bench::print_limit(name, bench::best_limit(all));
  std::puts("");
}

}  // namespace

int main() {
  if (cuda_device_count() == 0) {
    std::puts("skipped: there is no GPU");
    return 77;
  }
  try {
    std::vector<cuda_device> const gpus = cuda_devices();
    device_channels one(gpus[0], 8);
    find_limit("one_gpu packets", one);
    if (gpus.size() == 1) {
      std::puts("result: no limit `several_gpus packets`: there is one GPU");
      return 0;
    }
    device_channels several(gpus, static_cast<int>(std::min<std::size_t>(gpus.size(), 8)));
    find_limit("several_gpus packets", several);
  } catch (std::exception const& e) {
    std::printf("FAILED: %s\n", e.what());
    return 1;
  }
  return 0;
}
