// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The inner loops that read.cpp looks at, and two that must not pass.
#include <cstddef>
#include <cstdint>

#include "tutti/reduce/combine.hpp"
#include "tutti/reduce/ops.hpp"

struct scale_and_add {
  float operator()(float a, float b) const { return a * 0.7f + b; }
};

template <class T, class Op>
void combine_two(T const* const* sources, T* const* destinations, std::size_t n, bool stream) {
  tutti::detail::combine(tutti::detail::one_thread{}, sources, 2, destinations, 1, n, Op{}, {.stream = stream});
}

#define COMBINE(T, Op) template void combine_two<T, Op>(T const* const*, T* const*, std::size_t, bool)
COMBINE(float, tutti::sum);
COMBINE(double, tutti::sum);
COMBINE(std::int32_t, tutti::max);
COMBINE(std::uint8_t, tutti::sum);
COMBINE(tutti::bfloat16, tutti::sum);
COMBINE(tutti::half, tutti::sum);
COMBINE(float, scale_and_add);

// Each result is needed for the next: no compiler makes vectors of it.
extern "C" void serial(float* x, float const* y, std::size_t n) {
  for (std::size_t i = 1; i < n; ++i) x[i] = x[i - 1] + y[i];
}

float elsewhere(float a, float b);

extern "C" void calls(float* x, float const* y, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) x[i] = elsewhere(x[i], y[i]);
}
