// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The headers of algorithm/ and reduce/ under nvcc, and kernels that evaluate schedules.
#include <complex>

#include "all_headers.hpp"

// A thread evaluates the schedule of the rank with its number.
template <class Schedule>
__global__ void walk(tutti::shape of, tutti::step* out) {
  Schedule const schedule{};
  tutti::position const me{static_cast<int>(threadIdx.x), 0, 0};
  for (int i = 0; i < schedule.steps(of, me); ++i) out[i] = schedule.at(of, me, i);
}

template __global__ void walk<tutti::schedule<tutti::ring, tutti::collective::all_reduce>>(tutti::shape, tutti::step*);
template __global__ void walk<tutti::schedule<tutti::double_binary_tree, tutti::collective::all_reduce>>(tutti::shape,
                                                                                                         tutti::step*);

// What is of the host alone is combined there without a warning.
using complex = std::complex<float>;
void combine_on_host(complex const* const* sources, complex* const* to, std::size_t n) {
  tutti::combine(tutti::one_thread{}, sources, 2, to, 1, n, tutti::mean{}, {.finish = 2});
  tutti::combine(tutti::one_thread{}, sources, 2, to, 1, n, [](complex a, complex b) { return a - b; });
}
