// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The checks of the tests on a real GPU, and checks that need one: streams, graphs, errors, Thrust. Without doctest,
// which nvcc takes 15 s to compile. Exits with 77 without a GPU. `on_gpu quick` is for sanitizers and the PTX machine, which are slow.
#include <chrono>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <thrust/device_vector.h>
#include <thrust/iterator/counting_iterator.h>
#include <thrust/iterator/transform_iterator.h>
#include <vector>

#include "cuda/captured.cuh"
#include "cuda/report.hpp"
#include "support/device_checks.hpp"
#include "support/device_collectives.hpp"
#include "support/device_conformance.hpp"
#include "tutti/cuda.cuh"
#include "tutti/tutti.hpp"

namespace {

using namespace tutti;
using namespace tutti::detail;
using namespace tutti::testing;

deadline soon() { return deadline::after(std::chrono::seconds{300}); }

std::vector<std::size_t> counts{0, 1, 15, 33, 9001};
std::size_t many = 4096;

template <class T, class Op>
void check_combine(cuda_device const& gpu, Op const& op) {
  report("combine " + std::string(type_name<T>()) + " by " + std::string(name_of<Op>()),
         wrong_of_type<T>(gpu, counts, op) == 0);
}

template <class T>
void check_conversions(cuda_device const& gpu) {
  report("conversions of " + std::string(type_name<T>()), wrong_codes<T>(gpu) == 0 && wrong_roundings<T>(gpu) == 0);
}

template <class T, class Op>
void check_all_reduce(cuda_device const& gpu, Op const& op) {
  for (int const p : {1, 2, 3, 4, 8, 16}) {
    auto const values = all_values<T>(p, 5001);
    std::vector<T const*> sources;
    for (auto const& x : values) sources.push_back(x.data());
    std::vector<T> expected(values[0].size());
    T* const to[] = {expected.data()};
    combine(one_thread{}, sources.data(), p, to, 1, expected.size(), op, {.finish = p});
    auto const got =
        result_on_device<T>(gpu, p, p, expected.size(), p, expected.size(),
                            [&](auto const& ranks, auto& in, auto& out) { all_reduce(ranks, in, out, op); });
    report("all_reduce of " + std::string(type_name<T>()) + " on " + std::to_string(p) + " ranks",
           different(got, ranks_values<T>(static_cast<std::size_t>(p), expected)) == 0);
  }
}

// Moves blocks on the GPU, compared with the same jobs on the host.
template <class T>
void check_movement(cuda_device const& gpu) {
  int const p = 5;
  std::size_t const n = 777, all = n * p;
  auto const in = all_values<T>(p, all);
  auto const moved_to = [&](auto const& call) { return result_on_device<T>(gpu, p, p, all, p, all, call); };
  auto const dealt = moved_to([](auto const& ranks, auto& from, auto& to) { all_to_all(ranks, from, to); });
  int wrong = 0;
  for (std::size_t r = 0; r < p; ++r)
    for (std::size_t i = 0; i < all; ++i) wrong += !same_bits<T>(dealt[r][i], in[i / n][r * n + i % n]);
  report("all_to_all of " + std::string(type_name<T>()), wrong == 0);
  auto const shared = result_on_device<T>(gpu, p, p, n, p, all,
                                          [](auto const& ranks, auto& from, auto& to) { all_gather(ranks, from, to); });
  wrong = 0;
  for (std::size_t r = 0; r < p; ++r)
    for (std::size_t i = 0; i < all; ++i)
      wrong += !same_bits<T>(shared[r][i], uneven_values<T>(static_cast<int>(i / n), n)[i % n]);
  report("all_gather of " + std::string(type_name<T>()), wrong == 0);
}

void check_scans(cuda_device const& gpu) {
  std::size_t const n = 4099;
  auto const in = all_values<affine>(7, n);
  auto const out = result_on_device<affine>(
      gpu, 7, 7, n, 7, n, [](auto const& ranks, auto& from, auto& to) { scan(ranks, from, to, compose{}); });
  int wrong = 0;
  for (std::size_t i = 0; i < n; ++i) {
    affine all = in[0][i];
    for (std::size_t r = 0; r < 7; ++r) {
      if (r > 0) all = compose{}(all, in[r][i]);
      wrong += out[r][i] != all;
    }
  }
  report("scan by an operation that is not commutative", wrong == 0);
}

struct twice {
  __host__ __device__ float operator()(int x) const { return static_cast<float>(2 * x); }
};

void check_thrust(cuda_device const& gpu) {
  std::vector<thrust::device_vector<float>> data(4);
  for (std::size_t r = 0; r < 4; ++r) data[r].assign(1000, static_cast<float>(r + 1));
  all_reduce(cuda_local(gpu, 4), data, data);
  gpu.wait({}, soon());
  bool good = true;
  for (auto const& x : data) good = good && x[0] == 10.0f && x[999] == 10.0f;
  report("all_reduce of thrust::device_vector", good);

  auto const even = thrust::make_transform_iterator(thrust::counting_iterator<int>(0), twice{});
  decltype(even) const sources[] = {even, even + 1};
  thrust::device_vector<float> sums(1000);
  float* const to[] = {device_data(sums)};
  cuda_combine(gpu, {}, std::span<decltype(even)>(sources), std::span<float* const>(to), 1000, sum{});
  gpu.wait({}, soon());
  report("combine of fancy iterators", sums[0] == 2.0f && sums[999] == 3998.0f);
}

void check_lambdas(cuda_device const& gpu) {
  std::vector<thrust::device_vector<float>> data(3, thrust::device_vector<float>(500, 2.0f));
  float const bias = 3;
  cuda_local const ranks(gpu, 3);
  all_reduce(ranks, data, data, fused{sum{}, unchanged{}, [=] __device__(float x) { return x + bias; }});
  all_reduce(ranks, data, data, [] __host__ __device__(float a, float b) { return a < b ? b : a; });
  gpu.wait({}, soon());
  report("lambdas as operation and epilogue", data[0][0] == 9.0f && data[2][499] == 9.0f);
}

void check_fused(cuda_device const& gpu) {
  std::size_t const n = 10001;
  std::vector<bfloat16> const gradient(n, bfloat16(2.0f));
  std::vector<float> const ones(n, 1.0f);
  device_array<cuda_device, bfloat16> a(gpu, n);
  device_array<cuda_device, float> weight(gpu, n), velocity(gpu, n);
  gpu.copy({}, a.data(), gradient.data(), n * sizeof(bfloat16));
  gpu.copy({}, weight.data(), ones.data(), n * sizeof(float));
  gpu.copy({}, velocity.data(), ones.data(), n * sizeof(float));
  bfloat16 const* const from[] = {a.data(), a.data()};
  cuda_combine(gpu, {}, std::span<bfloat16 const* const>(from), std::span<float* const>{}, n,
               fused{sum{}, scale{0.5f},
                     with_arrays(sgd_step{.rate = 0.25f, .momentum = 0.5f}, weight.data(), velocity.data())});
  std::vector<float> w(n), v(n);
  gpu.copy({}, w.data(), weight.data(), n * sizeof(float));
  gpu.copy({}, v.data(), velocity.data(), n * sizeof(float));
  gpu.wait({}, soon());
  report("a step of SGD in the pass", w == std::vector<float>(n, 0.375f) && v == std::vector<float>(n, 2.5f));

  int flag = 0;
  device_array<cuda_device, int> found(gpu, 1);
  auto const unscaled = [&] {
    float const* const sources[] = {velocity.data()};
    float* const to[] = {weight.data()};
    gpu.copy({}, found.data(), &flag, sizeof flag);
    cuda_combine(gpu, {}, std::span<float const* const>(sources), std::span<float* const>(to), n,
                 fused{sum{}, unchanged{}, unscale{0.5f, found.data()}});
    gpu.copy({}, &flag, found.data(), sizeof flag);
    gpu.wait({}, soon());
    return flag;
  };
  bool const clean = unscaled() == 0;
  float const infinity = std::numeric_limits<float>::infinity();
  gpu.copy({}, velocity.data() + n / 2, &infinity, sizeof infinity);
  report("unscale finds what is not finite", clean && unscaled() == 1);
}

void check_streams_and_graphs(cuda_device const& gpu) {
  cudaStream_t const stream = gpu.make_stream();
  cuda_local const ranks(gpu, 2);
  auto data = to_device(gpu, ranks_values<float>(2, std::vector<float>(many, 1.0f)));
  for (int i = 0; i < 10; ++i) all_reduce(ranks, data, data, sum{}, {.stream = stream});
  gpu.wait(stream, soon());
  report("calls on a stream follow each other", to_host(gpu, data)[1][many - 1] == 1024.0f);

  captured const graph(stream, [&] { all_reduce(ranks, data, data, sum{}, {.stream = stream}); });
  graph.replay(3);
  gpu.wait(stream, soon());
  report("a call is captured in a graph, which is launched three times", to_host(gpu, data)[0][777] == 8192.0f);
  gpu.end_stream(stream);
}

// Ranks are threads that share the GPU.
void check_staged(cuda_device const& gpu) {
  std::string thrown;
  try {
    run_threads(3, [&](auto& comm) {
      cuda_staged ranks(comm, gpu, {.slice = 16 << 10});
      for (std::size_t const n : {1u, 5u, 20'000u})
        for (algorithm_id const by : {algorithm_id::one_shot, algorithm_id::two_shot}) {
          device_stream<cuda_device> const stream(gpu);
          device_conformance<float, decltype(ranks), std::remove_reference_t<decltype(comm)>> all(
              ranks, comm, n, 1, {.stream = stream.get(), .algorithm = by});
          all.check_reductions(sum{});
          if (by == algorithm_id::one_shot) all.check_movement();
        }
    });
  } catch (std::exception const& e) {
    thrown = e.what();
  }
  report("collectives by way of the host " + thrown, thrown.empty());
}

void check_errors(cuda_device const& gpu) {
  std::string said;
  try {
    static_cast<void>(gpu.allocate(std::size_t{1} << 46));
  } catch (tutti::error const& e) {
    said = e.happened();
  }
  report("out of memory says how much was asked for", said.find("cudaMalloc of 70368744177664 bytes") == 0);
  report("after which the GPU goes on", cudaGetLastError() == cudaSuccess);
}

}  // namespace

int main(int argc, char** argv) {
  bool const quick = argc > 1 && std::string_view(argv[1]) == "quick";
  if (cuda_device_count() == 0) {
    try {
      cuda_device const none;
      report("without a GPU a cuda_device is refused", false);
    } catch (tutti::error const& e) {
      std::printf("%s\n", e.what());
    }
    std::vector<float> alone(3, 1.0f);
    run_threads(2, [&](auto& comm) {
      std::vector<float> x(3, 1.0f);
      all_reduce(comm, x);
      if (comm.is_main()) alone = x;
    });
    report("the host's collectives run without a GPU", alone == std::vector<float>(3, 2.0f));
    if (failed == 0) std::printf("skipped: there is no GPU\n");
    return failed == 0 ? 77 : 1;
  }
  try {
    cuda_device const gpu;
    if (!quick) {
      counts.insert(counts.end(), {2, 16, 100, 100003});
      many = 1 << 20;
    }
    check_combine<float>(gpu, sum{});
    check_combine<std::int8_t>(gpu, sum{});
    check_combine<std::uint64_t>(gpu, bit_xor{});
    check_combine<tutti::half>(gpu, sum{});
    check_combine<bfloat16>(gpu, sum{});
    check_combine<float8_e4m3>(gpu, sum{});
    check_combine<float8_e5m2>(gpu, tutti::min{});
    check_combine<located<float>>(gpu, max_location{});
    check_combine<summary>(gpu, summarise{});
    check_combine<affine>(gpu, compose{});
    check_combine<std::complex<float>>(gpu, product{});
    check_conversions<tutti::half>(gpu);
    check_conversions<bfloat16>(gpu);
    check_conversions<float8_e4m3>(gpu);
    check_conversions<float8_e5m2>(gpu);
    check_all_reduce<float>(gpu, sum{});
    check_all_reduce<bfloat16>(gpu, sum{});
    check_all_reduce<std::complex<double>>(gpu, mean{});
    check_movement<float>(gpu);
    check_movement<std::uint8_t>(gpu);
    check_movement<summary>(gpu);
    check_scans(gpu);
    check_thrust(gpu);
    check_lambdas(gpu);
    check_fused(gpu);
    check_streams_and_graphs(gpu);
    check_staged(gpu);
    if (!quick) check_errors(gpu);  // a sanitizer counts calls that fail
  } catch (std::exception const& e) {
    std::printf("FAILED: %s\n", e.what());
    return 1;
  }
  std::printf("%d failed\n", failed);
  return failed == 0 ? 0 : 1;
}
