// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The checks of the tests on a real GPU, and checks that need one: streams, graphs, errors, Thrust. Without doctest,
// which nvcc takes 15 s to compile. Exits with 77 without a GPU. `on_gpu quick` is for sanitizers and the PTX machine, which are slow.
#include <algorithm>
#include <array>
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
#include <type_traits>
#include <vector>

#include "cuda/captured.cuh"
#include "cuda/report.hpp"
#include "support/device_checks.hpp"
#include "support/device_collectives.hpp"
#include "support/device_conformance.hpp"
#include "tutti/cuda.cuh"
#include "tutti/device/cuda/errors.cuh"
#include "tutti/tutti.hpp"

namespace {

using namespace tutti;
using namespace tutti::detail;
using namespace tutti::testing;

deadline soon() { return deadline::after(std::chrono::seconds{300}); }

std::vector<std::size_t> counts{0, 1, 15, 33, 601};
std::size_t many = 4096;

// So many elements that each thread of the small GPU of the PTX machine has as many packs in flight as it can have, where that
// depends on the number of sources.
template <class In, class Out = In>
std::size_t several_turns(int fan_in) {
  constexpr std::size_t threads = 1024, pack = device_pack<In, Out>, most = pack > 8 ? 2 : 4;
  if (fan_in != 1 && fan_in != 2 && fan_in != 4) return 501;
  return threads * pack * std::min(8 / static_cast<std::size_t>(fan_in), most) + 5 * pack / 2;
}

template <class T, class Op>
void check_combine(cuda_device const& gpu, Op const& op) {
  int wrong = wrong_of_type<T>(gpu, counts, op);
  for (int const fan_in : {1, 2, 4})
    wrong += wrong_combined<T>(gpu, several_turns<T>(fan_in), fan_in, 1, false, 1, true, op);
  report("combine " + std::string(type_name<T>()) + " by " + std::string(name_of<Op>()), wrong == 0);
}

// Arrays that are not aligned alike; in place too, where threads must not read what others write.
template <class T, class Op>
void check_alignments(cuda_device const& gpu, Op const& op, std::size_t every) {
  report("sources and destinations of " + std::string(type_name<T>()) + " at every alignment",
         wrong_at_alignments<T>(gpu, 1, op, every) + wrong_at_alignments<T>(gpu, 2, op, every) +
                 wrong_combined<T>(gpu, 150, 3, 2, true, 1, false, op) ==
             0);
}

// A destination between two sources, which end and begin in packs with elements of it: others must not read these meanwhile.
void check_neighbours(cuda_device const& gpu) {
  std::size_t const n = 61;
  std::vector<std::int8_t> values(3 * n);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<std::int8_t>(i % 60);
  device_array<cuda_device, std::int8_t> const all(gpu, values.size());
  gpu.copy({}, all.data(), values.data(), values.size());
  std::int8_t const* const sources[] = {all.data(), all.data() + 2 * n};
  std::int8_t* const to[] = {all.data() + n};
  cuda_combine(gpu, {}, std::span<std::int8_t const* const>(sources), std::span<std::int8_t* const>(to), n, sum{});
  std::vector<std::int8_t> got(values.size());
  gpu.copy({}, got.data(), all.data(), got.size());
  gpu.wait({}, soon());
  for (std::size_t i = 0; i < n; ++i) values[n + i] = static_cast<std::int8_t>(values[i] + values[2 * n + i]);
  report("a destination whose packs have elements of sources", got == values);
}

// Sums of elements of one type, rounded to another. Source k starts (k + 1) * offset elements later, modulo the length of a pack.
template <class In, class Out>
int wrong_sums(cuda_device const& gpu, int fan_in, std::size_t n, std::size_t offset) {
  constexpr std::size_t pack = device_pack<In, Out>;
  auto const in = all_values<In>(fan_in, n + pack);
  auto const from = to_device(gpu, in);
  auto const to = to_device(gpu, ranks_values<Out>(1, std::vector<Out>(n)));
  std::vector<In const*> sources;
  auto const first = [&](std::size_t k) { return (k + 1) * offset % pack; };
  for (std::size_t k = 0; k < from.size(); ++k) sources.push_back(from[k].data() + first(k));
  Out* const destinations[] = {to[0].data()};
  cuda_combine(gpu, {}, std::span<In const* const>(sources), std::span<Out* const>(destinations), n, sum{});
  auto const out = to_host(gpu, to)[0];
  int wrong = 0;
  for (std::size_t i = 0; i < n; ++i) {
    float all = in[0][first(0) + i];
    for (std::size_t k = 1; k < in.size(); ++k) all += float{in[k][first(k) + i]};
    wrong += !same_bits<Out>(out[i], Out(all));
  }
  return wrong;
}
template <class In, class Out>
void check_conversion(cuda_device const& gpu) {
  int wrong = 0;
  for (int const fan_in : {1, 2, 4, 6, 8}) {
    wrong += wrong_sums<In, Out>(gpu, fan_in, several_turns<In, Out>(fan_in), 0);
    wrong += wrong_sums<In, Out>(gpu, fan_in, 7, 0) + wrong_sums<In, Out>(gpu, fan_in, 45, 1);
  }
  report("sums of " + std::string(type_name<In>()) + " as " + std::string(type_name<Out>()), wrong == 0);
}

template <class T>
void check_conversions(cuda_device const& gpu) {
  report("conversions of " + std::string(type_name<T>()), wrong_codes<T>(gpu) == 0 && wrong_roundings<T>(gpu) == 0);
  check_conversion<float, T>(gpu);
  check_conversion<T, float>(gpu);
}

template <class T, class Op>
void check_all_reduce(cuda_device const& gpu, Op const& op) {
  for (int const p : {1, 2, 3, 4, 8, 16}) {
    auto values = all_values<T>(p, several_turns<T>(p));
    using A = accumulator_for<Op, T>;
    if constexpr (has_prepare<Op, A>)
      for (auto& x : values)
        for (T& element : x) element = narrowed<T>(detail::prepared<T, Op>{op}(widened<A>(element)));
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
void check_movement(cuda_device const& gpu, std::size_t n) {
  int const p = 5;
  std::size_t const all = n * p;
  auto const in = all_values<T>(p, all);
  auto const moved_to = [&](auto const& call) { return result_on_device<T>(gpu, p, p, all, p, all, call); };
  auto const dealt = moved_to([](auto const& ranks, auto& from, auto& to) { all_to_all(ranks, from, to); });
  int wrong = 0;
  for (std::size_t r = 0; r < p; ++r)
    for (std::size_t i = 0; i < all; ++i) wrong += !same_bits<T>(dealt[r][i], in[i / n][r * n + i % n]);
  report("all_to_all of " + std::string(type_name<T>()), wrong == 0);
  auto const shared = result_on_device<T>(gpu, p, p, n, p, all,
                                          [](auto const& ranks, auto& from, auto& to) { all_gather(ranks, from, to); });
  auto const blocks = all_values<T>(p, n);
  wrong = 0;
  for (std::size_t r = 0; r < p; ++r)
    for (std::size_t i = 0; i < all; ++i) wrong += !same_bits<T>(shared[r][i], blocks[i / n][i % n]);
  report("all_gather of " + std::string(type_name<T>()), wrong == 0);
}
// Blocks that start at aligned addresses, and others.
template <class T>
void check_movement(cuda_device const& gpu) {
  for (std::size_t const n : {14'000 / sizeof(T) / 16 * 16, std::size_t{177}}) check_movement<T>(gpu, n);
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
  good = true;
  for (int const count : {1, 2, 4, 6, 8}) {
    std::vector const sources(static_cast<std::size_t>(count), even + 1);
    std::size_t const n = several_turns<float>(count);
    thrust::device_vector<float> sums(n + 1);
    for (float* const begin : {device_data(sums), device_data(sums) + 1}) {
      float* const to[] = {begin};
      cuda_combine(gpu, {}, std::span<std::remove_cv_t<decltype(even)> const>(sources), std::span<float* const>(to), n,
                   sum{});
      std::vector<float> got(n);
      gpu.copy({}, got.data(), begin, n * sizeof(float));
      gpu.wait({}, soon());
      for (std::size_t i = 0; i < n; ++i)
        good = good && got[i] == static_cast<float>(2 * count) * (1.0f + static_cast<float>(i));
    }
  }
  report("combine of fancy iterators", good);
}

void check_lambdas(cuda_device const& gpu) {
  float const bias = 3;
  bool good = true;
  for (int const p : {1, 2, 4, 6, 8}) {
    std::size_t const n = several_turns<float>(p);
    auto data = to_device(gpu, ranks_values<float>(static_cast<std::size_t>(p), std::vector<float>(n, 2.0f)));
    cuda_local const ranks(gpu, p);
    all_reduce(ranks, data, data, fused{sum{}, unchanged{}, [=] __device__(float x) { return x + bias; }});
    all_reduce(ranks, data, data, [] __host__ __device__(float a, float b) { return a < b ? b : a; });
    for (auto const& x : to_host(gpu, data))
      good = good && x == std::vector<float>(n, 2.0f * static_cast<float>(p) + bias);
  }
  report("lambdas as operation and epilogue", good);
}

// Without a destination, and with one. Arrays start at aligned addresses or one element later: the gradients, those of the step, and
// its last one.
struct sgd_starts {
  std::size_t n, gradients, arrays, last;
};
void check_sgd(cuda_device const& gpu, int fan_in) {
  std::size_t const most = 5001, all = most + 1;
  auto const gradients = to_device(
      gpu, ranks_values<bfloat16>(static_cast<std::size_t>(fan_in), std::vector<bfloat16>(all, bfloat16(2.0f))));
  bool good = true;
  for (auto const& [n, from_first, first, last] :
       {sgd_starts{most, 0, 0, 0}, {most, 1, 1, 1}, {101, 1, 0, 0}, {101, 0, 1, 0}}) {
    auto const arrays =
        to_device(gpu, ranks_values<float>(3, std::vector<float>(all, 1.0f)));  // weight, velocity, copy
    std::vector<bfloat16 const*> from;
    for (auto const& x : gradients) from.push_back(x.data() + from_first);
    float* const copy[] = {arrays[2].data() + first};
    cuda_combine(gpu, {}, std::span<bfloat16 const* const>(from), std::span<float* const>(copy, first), n,
                 fused{sum{}, scale{0.5f},
                       with_arrays(sgd_step{.rate = 0.25f, .momentum = 0.5f}, arrays[0].data() + first,
                                   arrays[1].data() + last)});
    auto const got = to_host(gpu, arrays);
    float const velocity = 0.5f + static_cast<float>(fan_in), weight = 1.0f - 0.25f * velocity;
    for (std::size_t i = 0; i < all; ++i) {
      bool const inside = i >= first && i < first + n, inside_last = i >= last && i < last + n;
      good = good && got[0][i] == (inside ? weight : 1.0f) && got[1][i] == (inside_last ? velocity : 1.0f) &&
             got[2][i] == (inside && first == 1 ? weight : 1.0f);
    }
  }
  report("a step of SGD in the pass over " + std::to_string(fan_in) + " gradients", good);
}

// Settings are written between the replays of one graph. There are more arrays than a thread loads at once, which start
// at aligned addresses, one element later, or both.
void check_stages_in_memory(cuda_device const& gpu) {
  constexpr std::size_t p = 11;
  cuda_local const ranks(gpu, p);
  std::size_t const n = several_turns<float>(p);
  cudaStream_t const stream = gpu.make_stream();
  auto const in = to_device(ranks, ranks_values<float>(p, std::vector<float>(n + 1, 1.0f)));
  auto const out = to_device(ranks, ranks_values<float>(p, std::vector<float>(n + 1)));
  device_array<cuda_device, float> const factor(gpu, 1);
  device_array<cuda_device, clip<float>> const limits(gpu, 1);
  bool good = true;
  for (std::array<std::size_t, 2> const& firsts : {std::array<std::size_t, 2>{0, 0}, {1, 1}, {0, 1}}) {
    auto const first = [&](std::size_t q) { return firsts[q % 2]; };
    std::vector<std::span<float const>> from;
    std::vector<std::span<float>> to;
    for (std::size_t q = 0; q < p; ++q) {
      from.emplace_back(in[q].data() + first(q), n);
      to.emplace_back(out[q].data() + first(q), n);
    }
    captured const graph(stream, [&] {
      all_reduce(ranks, from, to, fused{sum{}, scale{from_memory(factor.data())}, from_memory(limits.data())},
                 {.stream = stream});
    });
    for (float const by : {0.5f, 2.0f, 0.125f}) {
      clip<float> const limit{2.0f, 12.0f};
      gpu.copy(stream, factor.data(), &by, sizeof by);
      gpu.copy(stream, limits.data(), &limit, sizeof limit);
      graph.replay();
      gpu.wait(stream, soon());
      auto const got = to_host(gpu, out);
      for (std::size_t q = 0; q < p; ++q)
        good = good && std::count(got[q].begin() + static_cast<std::ptrdiff_t>(first(q)),
                                  got[q].begin() + static_cast<std::ptrdiff_t>(first(q) + n),
                                  std::clamp(p * by, 2.0f, 12.0f)) == static_cast<std::ptrdiff_t>(n);
    }
  }
  report("stages and numbers in memory change between the replays of a graph", good);
  gpu.end_stream(stream);
}

void check_unscale(cuda_device const& gpu, int fan_in) {
  std::size_t const n = several_turns<float>(fan_in);
  auto const arrays =
      to_device(gpu, ranks_values<float>(static_cast<std::size_t>(fan_in) + 1, std::vector<float>(n, 1.0f)));
  std::vector<float const*> sources;
  for (auto const& x : arrays) sources.push_back(x.data());
  sources.pop_back();
  float* const to[] = {arrays.back().data()};
  int flag = 0;
  device_array<cuda_device, int> found(gpu, 1);
  auto const unscaled = [&] {
    gpu.copy({}, found.data(), &flag, sizeof flag);
    cuda_combine(gpu, {}, std::span<float const* const>(sources), std::span<float* const>(to), n,
                 fused{sum{}, unchanged{}, unscale{0.5f, found.data()}});
    gpu.copy({}, &flag, found.data(), sizeof flag);
    gpu.wait({}, soon());
    return flag;
  };
  bool const clean = unscaled() == 0;
  float const infinity = std::numeric_limits<float>::infinity();
  gpu.copy({}, arrays[0].data() + n / 2, &infinity, sizeof infinity);
  report("unscale finds what is not finite in " + std::to_string(fan_in) + " arrays", clean && unscaled() == 1);
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

  cudaStream_t blocking = nullptr;
  expect_cuda(cudaStreamCreateWithFlags(&blocking, cudaStreamDefault), "cudaStreamCreateWithFlags");
  bool known = false;
  captured const none(blocking, [&] { known = gpu.capturing({}); }, cudaStreamCaptureModeGlobal);
  report("work on the default stream would spoil the capture of a stream that waits for it",
         known && cudaGetLastError() == cudaSuccess && !gpu.capturing({}));
  gpu.end_stream(blocking);
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
    check_alignments<float>(gpu, sum{}, 1);
    check_alignments<std::int8_t>(gpu, sum{}, quick ? 3 : 1);
    check_alignments<bfloat16>(gpu, sum{}, quick ? 3 : 1);
    check_alignments<std::uint64_t>(gpu, bit_xor{}, 1);
    check_neighbours(gpu);
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
    check_all_reduce<bfloat16>(gpu, mean{});
    check_all_reduce<bfloat16>(gpu, premultiplied_sum{0.3f});
    check_all_reduce<std::uint32_t>(gpu, sum{});
    check_all_reduce<std::complex<double>>(gpu, mean{});
    check_movement<float>(gpu);
    check_movement<std::uint8_t>(gpu);
    check_movement<summary>(gpu);
    check_scans(gpu);
    check_thrust(gpu);
    check_lambdas(gpu);
    for (int const fan_in : {1, 2, 4, 6, 8}) {
      check_sgd(gpu, fan_in);
      check_unscale(gpu, fan_in);
    }
    check_stages_in_memory(gpu);
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
