// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The fused pass of a device; its body runs on the CPU, by one thread and by grids of several sizes.
// labels: wide
#include "tutti/device/kernel/combine.hpp"

#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <string>
#include <vector>

#include "support/device_checks.hpp"
#include "support/device_stand_in.hpp"

using namespace tutti;
using namespace tutti::detail;
using namespace tutti::testing;

namespace {

template <class T>
using first_operation = std::tuple_element_t<0, decltype(operations_on<T>())>;

// Sources in separate memory, for tests that are only about values.
template <class In, class Out, class How>
std::vector<Out> combined(std::vector<std::vector<In>> const& in, How const& how) {
  std::vector<In const*> sources;
  for (auto const& x : in) sources.push_back(x.data());
  std::vector<Out> out(in[0].size());
  Out* const to[] = {out.data()};
  cuda_combine(device_stand_in{}, 0, std::span<In const* const>(sources), std::span<Out* const>(to), out.size(), how);
  return out;
}

}  // namespace

TEST_CASE("every type: tails, fan-ins, fan-outs, alignments, in place, by one thread and by grids") {
  for (int const threads : {1, 3, 64}) {
    CAPTURE(threads);
    device_stand_in const on{.threads = threads};
    for_each_type(element_types{}, [&]<class T>() {
      CAPTURE(std::string{type_name<T>()});
      if constexpr (!std::same_as<T, long double> && !std::same_as<T, bool>)
        CHECK(wrong_of_type<T>(on, std::array<std::size_t, 8>{0, 1, 2, 15, 16, 33, 100, 1000}, first_operation<T>{}) ==
              0);
    });
  }
}

TEST_CASE_TEMPLATE("sources at every alignment, with destinations at every other", T, std::uint8_t, std::uint16_t,
                   float, double) {
  for (int const threads : {1, 5})
    CHECK(wrong_at_alignments<T>(device_stand_in{.threads = threads}, 2, first_operation<T>{}) == 0);
}

TEST_CASE("narrow sources at every alignment of their packs") {
  std::vector<bfloat16> memory(300, bfloat16(2.0f));
  for (std::size_t const n : {std::size_t{11}, std::size_t{12}, std::size_t{13}, std::size_t{250}})
    for (std::size_t offset = 0; offset < 4; ++offset) {
      for (std::size_t i = 0; i < memory.size(); ++i) memory[i] = bfloat16(static_cast<float>(i));
      bfloat16 const* const sources[] = {memory.data() + offset, memory.data()};
      std::vector<float> out(n);
      float* const to[] = {out.data()};
      cuda_combine(device_stand_in{.threads = 3}, 0, std::span<bfloat16 const* const>(sources),
                   std::span<float* const>(to), n, sum{});
      for (std::size_t i = 0; i < n; ++i)
        CHECK(out[i] == float{bfloat16(static_cast<float>(i + offset))} + float{bfloat16(static_cast<float>(i))});
    }
}

TEST_CASE("an operation that is not commutative combines in the order of the sources") {
  CHECK(wrong_combined<affine>(device_stand_in{}, 300, 9, 2, false, 1, true, compose{}) == 0);
}

TEST_CASE_TEMPLATE("narrow types go to float and back", T, half, bfloat16, float8_e4m3, float8_e5m2) {
  CHECK(wrong_codes<T>(device_stand_in{}) == 0);
  CHECK(wrong_roundings<T>(device_stand_in{}) == 0);
}

TEST_CASE("storage, accumulator and result are of types of their own") {
  std::vector<float8_e4m3> const a(100, float8_e4m3(1.0f)), b(100, float8_e4m3(0.0625f));
  CHECK(combined<float8_e4m3, float>({a, b, b}, sum{}) == std::vector<float>(100, 1.125f));
  auto const as_half = combined<float8_e4m3, half>({a, b}, fused{sum{}, scale{2.0f}});
  for (half const x : as_half) CHECK(float{x} == 2.125f);
}

TEST_CASE("prologue and epilogue: average, scale, clip, a lambda") {
  std::vector<float> const a(77, 1.0f), b(77, 4.0f);
  CHECK(combined<float, float>({a, b}, fused{sum{}, unchanged{}, scale{0.5f}}) == std::vector<float>(77, 2.5f));
  CHECK(combined<float, float>({a, b}, fused{sum{}, scale{0.5f}}) == std::vector<float>(77, 2.5f));
  CHECK(combined<float, float>({a, b}, fused{sum{}, unchanged{}, clip{-1.0f, 3.0f}}) == std::vector<float>(77, 3.0f));
  float const bias = 7;
  CHECK(combined<float, float>({a, b}, fused{sum{}, unchanged{}, [=](float x) { return x + bias; }}) ==
        std::vector<float>(77, 12.0f));
}

TEST_CASE("unscale finds what is not finite") {
  std::vector<float> a(77, 8.0f);
  int found = 0;
  fused const how{sum{}, unchanged{}, unscale{0.125f, &found}};
  CHECK(combined<float, float>({a}, how) == std::vector<float>(77, 1.0f));
  CHECK(found == 0);
  a[60] = HUGE_VALF;
  static_cast<void>(combined<float, float>({a}, how));
  CHECK(found == 1);
  found = 0;
  a[60] = std::nanf("");
  static_cast<void>(combined<float, float>({a}, how));
  CHECK(found == 1);
}

TEST_CASE("what stands around a sum of doubles is computed in double") {
  std::vector<double> const third(5, 1.0 / 3), large(5, 1e300);
  int found = 0;
  CHECK(combined<double, double>({third}, fused{sum{}, unchanged{}, unscale{1.0f, &found}}) == third);
  CHECK(combined<double, double>({large}, fused{sum{}, unchanged{}, unscale{0.5, &found}}) ==
        std::vector<double>(5, 5e299));
  CHECK(found == 0);
  std::vector<double> weight(5, 1), velocity(5, 0), mean(5, 0), variance(5, 0);
  double const* const sources[] = {third.data()};
  std::span<double const* const> const from(sources);
  cuda_combine(
      device_stand_in{}, 0, from, std::span<double* const>{}, 5,
      fused{sum{}, unchanged{}, with_arrays(basic_sgd_step<double>{.rate = 0.1}, weight.data(), velocity.data())});
  CHECK(weight == std::vector<double>(5, 1 - 0.1 * (1.0 / 3)));
  basic_adam_step<double> const step{.rate = 0.1};
  cuda_combine(device_stand_in{}, 0, from, std::span<double* const>{}, 5,
               fused{sum{}, unchanged{}, with_arrays(step, weight.data(), mean.data(), variance.data())});
  CHECK(mean == std::vector<double>(5, 0.9 * 0 + (1 - 0.9) * (1.0 / 3)));
}

TEST_CASE("steps of optimisers keep their arrays up to date in the same pass") {
  for (std::size_t const offset : {0u, 1u, 3u}) {
    std::size_t const n = 101;
    std::vector<bfloat16> const a(n + offset, bfloat16(1.0f)), b(n + offset, bfloat16(3.0f));
    bfloat16 const* const sources[] = {a.data() + offset, b.data() + offset};
    std::span<bfloat16 const* const> const from(sources);
    std::vector<float> weight(n + offset, 1), velocity(n + offset, 2);
    cuda_combine(device_stand_in{}, 0, from, std::span<float* const>{}, n,
                 fused{sum{}, scale{0.5f},
                       with_arrays(sgd_step{.rate = 0.25f, .momentum = 0.5f}, weight.data() + offset,
                                   velocity.data() + offset)});
    for (std::size_t i = offset; i < n + offset; ++i) {
      CHECK(velocity[i] == 3.0f);
      CHECK(weight[i] == 0.25f);
    }

    std::vector<float> mean(n + offset, 0.5f), variance(n + offset, 0.25f);
    std::vector<half> published(n + offset);
    half* const to[] = {published.data() + offset};
    adam_step const step{.rate = 0.5f, .beta1 = 0.5f, .beta2 = 0.75f, .epsilon = 0, .correction1 = 0.5f};
    cuda_combine(device_stand_in{}, 0, from, std::span<half* const>(to), n,
                 fused{sum{}, scale{0.5f},
                       with_arrays(step, weight.data() + offset, mean.data() + offset, variance.data() + offset)});
    for (std::size_t i = offset; i < n + offset; ++i) {
      float const m = 0.5f * 0.5f + 0.5f * 2.0f, v = 0.75f * 0.25f + 0.25f * 4.0f;
      CHECK(mean[i] == m);
      CHECK(variance[i] == v);
      CHECK(weight[i] == 0.25f - 0.5f * (m / 0.5f / std::sqrt(v)));
      CHECK(published[i].bits == half(weight[i]).bits);
    }
  }
}

namespace {

// The squares of the integers from `first` on, computed rather than stored.
struct squares {
  using value_type = float;
  std::ptrdiff_t first = 0;

  float operator[](std::ptrdiff_t i) const { return static_cast<float>((first + i) * (first + i)); }
};

}  // namespace

TEST_CASE("sources need not lie in memory") {
  squares const sources[] = {{0}, {1}};
  std::vector<float> out(70);
  float* const to[] = {out.data()};
  cuda_combine(device_stand_in{.threads = 3}, 0, std::span<squares const>(sources), std::span<float* const>(to), 70,
               sum{});
  for (std::size_t i = 0; i < 70; ++i) CHECK(out[i] == static_cast<float>(i * i + (i + 1) * (i + 1)));
}

TEST_CASE("what cannot be launched is refused with a sentence") {
  std::vector<float> x(4);
  std::vector<float const*> sources(257, x.data());
  std::vector<float*> destinations(65, x.data());
  auto const call = [&](std::size_t from, std::size_t to) {
    cuda_combine(device_stand_in{}, 0, std::span<float const* const>(sources).first(from),
                 std::span<float* const>(destinations).first(to), 4, sum{});
  };
  CHECK_THROWS_WITH(call(0, 1), "tutti: cuda_combine was given 0 sources; pass 1 to 256, or make several passes");
  CHECK_THROWS_WITH(call(257, 1), "tutti: cuda_combine was given 257 sources; pass 1 to 256, or make several passes");
  CHECK_THROWS_WITH(call(2, 0), "tutti: cuda_combine was given 0 destinations; pass 1 to 64, or make several passes");
  CHECK_THROWS_AS(call(2, 65), tutti::error);
  CHECK_NOTHROW(call(256, 64));
}
