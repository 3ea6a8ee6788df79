// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Virtual ranks whose results differ cannot keep one set of arrays up to date.
// expect: arrays are one for all ranks of a cuda_local
#include <vector>

#include "../support/device_stand_in.hpp"
#include "tutti/device/local/cuda_local.hpp"

using namespace tutti;
using namespace tutti::detail;

void call(cuda_local<testing::device_stand_in> const& ranks, std::vector<std::vector<float>>& in,
          std::vector<std::vector<float>>& out, float* weights, float* velocity) {
  fused const how{sum{}, unchanged{}, with_arrays(sgd_step{.rate = 0.1f}, weights, velocity)};
#ifdef TUTTI_CONTROL
  all_reduce(ranks, in, out, how);
#else
  reduce_scatter(ranks, in, out, how);
#endif
}
