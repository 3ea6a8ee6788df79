// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The headers of algorithm/ and reduce/ under nvcc, and kernels that take from them what a collective on the device does.
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

template <class T, class Op>
__global__ void combine_all(T const* const* sources, int count, T* const* destination, std::size_t n) {
  tutti::combine(tutti::one_thread{}, sources, count, destination, 1, n, Op{});
}

template __global__ void combine_all<float, tutti::sum>(float const* const*, int, float* const*, std::size_t);
template __global__ void combine_all<int, tutti::max>(int const* const*, int, int* const*, std::size_t);
