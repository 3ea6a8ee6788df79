// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Virtual ranks have one set of arrays, which is not divided among them.
// expect: virtual ranks share the arrays of an epilogue
#include <vector>

#include "../support/device_stand_in.hpp"
#include "tutti/device/local/cuda_local.hpp"

using namespace tutti;
using namespace tutti::detail;

void call(cuda_local<testing::device_stand_in> const& ranks, std::vector<std::vector<float>>& in,
          std::vector<std::vector<float>>& out, float* weights, float* velocity) {
#ifdef TUTTI_CONTROL
  all_reduce(ranks, in, out, fused{sum{}, unchanged{}, with_arrays(sgd_step{.rate = 0.1f}, weights, velocity)});
#else
  all_reduce(ranks, in, out, fused{sum{}, unchanged{}, with_shards(sgd_step{.rate = 0.1f}, weights, velocity)});
#endif
}
