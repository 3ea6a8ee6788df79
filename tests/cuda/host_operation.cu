// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Must not compile: an operation, a prologue, an epilogue and members that only the host can call. nvcc by itself warns, and leaves them
// out of the kernel.
#include "tutti/device/kernel/combining.hpp"
#include "tutti/device/kernel/jobs.hpp"
#include "tutti/device/kernel/rows.hpp"
#include "tutti/reduce/fused.hpp"
#include "tutti/reduce/ops.hpp"
#include "tutti/reduce/rows.hpp"

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

// Members of an operation, and stages that other functions call.
struct squares {
  TUTTI_HOST_DEVICE float operator()(float a, float b) const { return a + b; }
  float prepare(float x) const { return x * x; }
  float finish(float x, int) const { return x; }
};
struct third {
  float operator()(float x) const { return x / 3; }
};
struct fourth {
  float operator()(float x) const { return x / 4; }
};
struct slow_step {
  float rate;
  float operator()(float x, float (&)[1]) const { return x; }
};

__global__ void apply(float* x, third const* in_memory, float const* rate) {
  x[0] = tutti::detail::prepared<float, squares>{}(x[0]);
  x[1] = tutti::detail::finished<squares>{}(x[1]);
  float result[1];
  tutti::detail::apply_epilogue(tutti::detail::stage_in_memory<third>{in_memory}, 0, {x[2]}, result);
  x[2] = tutti::detail::both<tutti::detail::unchanged, fourth>{}(x[2]);
  tutti::detail::arrays_step<tutti::detail::step_with_rate<slow_step, float>, float, 1> const step{{{0}, rate}, {x}};
  tutti::detail::apply_epilogue(step, 0, {x[3]}, result);
}

// A step on rows.
struct deviation {
  using total = float;
  float of(float x) const { return x; }
  float combine(float a, float b) const { return a + b; }
  float row(float sum, std::size_t) const { return sum; }
  float finish(float x, float mean) const { return x - mean; }
};
struct lone_thread {
  template <class T>
  struct reduction {
    template <class F>
    TUTTI_HOST_DEVICE T of_all(lone_thread const&, T const& x, F const&) {
      return x;
    }
  };
  TUTTI_HOST_DEVICE int rank() const { return 0; }
  TUTTI_HOST_DEVICE int size() const { return 1; }
};

__global__ void finish_row(float const* from, float* to) {
  auto const source = [&](int) { return from; };
  auto const destination = [&](int) { return to; };
  using epilogue = tutti::detail::row_epilogue<deviation>;
  using rows_type = tutti::detail::rows_of<epilogue>;
  using how_to = tutti::fused<tutti::sum>;
  rows_type const rows{8, {}};
  how_to const how{};
  __shared__ tutti::detail::row_room<lone_thread, float, rows_type> room;
  tutti::detail::row_pass<1, decltype(source), decltype(destination), how_to, epilogue>{
      source, 1, destination, 1, 0, rows, how}(lone_thread{}, room);
}
