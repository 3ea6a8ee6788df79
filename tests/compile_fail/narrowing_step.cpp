// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A step of an optimiser does not narrow gradients.
// expect: this step would narrow gradients
#include <vector>

#include "../support/device_stand_in.hpp"
#include "tutti/device/local/cuda_local.hpp"

using namespace tutti;
using namespace tutti::detail;

void call(cuda_local<testing::device_stand_in> const& ranks, std::vector<std::vector<double>>& gradients,
          float* weights, float* velocity, double* wide_weights, double* wide_velocity) {
#ifdef TUTTI_CONTROL
  static_cast<void>(weights), static_cast<void>(velocity);
  all_reduce(ranks, gradients, gradients,
             fused{sum{}, unchanged{}, with_arrays(basic_sgd_step<double>{.rate = 0.1}, wide_weights, wide_velocity)});
#else
  static_cast<void>(wide_weights), static_cast<void>(wide_velocity);
  all_reduce(ranks, gradients, gradients,
             fused{sum{}, unchanged{}, with_arrays(sgd_step{.rate = 0.1f}, weights, velocity)});
#endif
}
