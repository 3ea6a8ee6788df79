// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The headers of algorithm/ and reduce/ under nvcc, kernels that evaluate schedules, and the advice in errors.
#include <complex>
#include <string_view>

#include "all_headers.hpp"
#include "tutti/device/cuda/driver.cuh"
#include "tutti/device/cuda/errors.cuh"
#include "tutti/training/elastic/snapshots.hpp"

// Each thread evaluates the schedule of the rank with its number.
template <class Schedule>
__global__ void walk(tutti::shape of, tutti::step* out) {
  Schedule const schedule{};
  tutti::position const me{static_cast<int>(threadIdx.x), 0, 0};
  for (int i = 0; i < schedule.steps(of, me); ++i) out[i] = schedule.at(of, me, i);
}

template __global__ void walk<tutti::schedule<tutti::ring, tutti::collective::all_reduce>>(tutti::shape, tutti::step*);
template __global__ void walk<tutti::schedule<tutti::double_binary_tree, tutti::collective::all_reduce>>(tutti::shape,
                                                                                                         tutti::step*);

// Compensated sums are for devices too.
template <class T>
__global__ void sum_up(T const* values, int n, T* out) {
  tutti::compensated<T> all;
  for (int i = 0; i < n; ++i) all = tutti::compensated_sum{}(all, tutti::compensated<T>(values[i]));
  *out = static_cast<T>(all);
}
template __global__ void sum_up<float>(float const*, int, float*);
template __global__ void sum_up<double>(double const*, int, double*);

// Types for the host only are combined there without a warning.
using complex = std::complex<float>;
void combine_on_host(complex const* const* sources, complex* const* to, std::size_t n) {
  tutti::detail::combine(tutti::detail::one_thread{}, sources, 2, to, 1, n, tutti::mean{}, {.finish = 2});
  tutti::detail::combine(tutti::detail::one_thread{}, sources, 2, to, 1, n, [](complex a, complex b) { return a - b; });
}

// Elastic training in a source of CUDA compares moments.
static_assert(tutti::detail::moment{1, 2} == tutti::detail::moment{1, 2} &&
              tutti::detail::moment{1, 2} < tutti::detail::moment{2, 1});

// CUDA documents which errors are sticky, in the runtime and in the driver; `sticky` must agree.
constexpr bool is_said_to_be_sticky(cudaError_t code) {
  return tutti::detail::sticky(code) &&
         std::string_view(tutti::detail::way_out_of(code)).starts_with("the error is sticky");
}
constexpr cudaError_t of_driver(CUresult code) { return static_cast<cudaError_t>(code); }
static_assert(is_said_to_be_sticky(cudaErrorIllegalAddress) && is_said_to_be_sticky(cudaErrorLaunchFailure) &&
              is_said_to_be_sticky(cudaErrorAssert) && is_said_to_be_sticky(cudaErrorECCUncorrectable));
static_assert(is_said_to_be_sticky(of_driver(CUDA_ERROR_ILLEGAL_ADDRESS)) &&
              is_said_to_be_sticky(of_driver(CUDA_ERROR_LAUNCH_TIMEOUT)) &&
              is_said_to_be_sticky(of_driver(CUDA_ERROR_ASSERT)) &&
              is_said_to_be_sticky(of_driver(CUDA_ERROR_HARDWARE_STACK_ERROR)) &&
              is_said_to_be_sticky(of_driver(CUDA_ERROR_ILLEGAL_INSTRUCTION)) &&
              is_said_to_be_sticky(of_driver(CUDA_ERROR_MISALIGNED_ADDRESS)) &&
              is_said_to_be_sticky(of_driver(CUDA_ERROR_INVALID_ADDRESS_SPACE)) &&
              is_said_to_be_sticky(of_driver(CUDA_ERROR_INVALID_PC)) &&
              is_said_to_be_sticky(of_driver(CUDA_ERROR_LAUNCH_FAILED)));
static_assert(!is_said_to_be_sticky(cudaErrorMemoryAllocation) && !is_said_to_be_sticky(cudaErrorNoDevice) &&
              !is_said_to_be_sticky(of_driver(CUDA_ERROR_INVALID_VALUE)));
static_assert(
    std::string_view(tutti::detail::way_out_of(of_driver(CUDA_ERROR_OUT_OF_MEMORY))).starts_with("free GPU memory"));
