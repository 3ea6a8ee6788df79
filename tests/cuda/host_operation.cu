// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Must not compile: an operation, a prologue and an epilogue that only the host can call. nvcc by itself warns, and leaves them out of
// the kernel.
#include "tutti/device/kernel/combining.hpp"

struct largest {
  float operator()(float a, float b) const { return a > b ? a : b; }
};
struct twice {
  float operator()(float x) const { return 2 * x; }
};
struct half {
  float operator()(float x) const { return x / 2; }
};

__global__ void combine(float const* from, float* to, int n) {
  auto const source = [&](int) { return from; };
  auto const destination = [&](int) { return to; };
  using how_to = tutti::fused<largest, twice, half>;
  how_to const how{};
  float all[1][1] = {{0}};
  tutti::detail::combining<2, decltype(source), decltype(destination), how_to> const all_of{
      source, 2, destination, 1, static_cast<std::size_t>(n), how};
  all_of.template add<2, true>(0, 0, 0, all);
  all_of.finish(0, all[0]);
}
