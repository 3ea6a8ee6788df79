// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Layers that ranks divide, over loopback.
// labels: threads twin
#include "support/sanitized.hpp"
#include "training/tensor/tensor_parallel.hpp"

#include <doctest/doctest.h>

using namespace tutti;
using namespace tutti::testing;

TEST_CASE("ranks that divide layers exchange what one process computes, over loopback") {
  for (int const ranks : ranks_to_test({1, 2, 3, 4, 8})) {
    CAPTURE(ranks);
    CHECK_NOTHROW(run_threads(ranks, [](auto& comm) { check_tensor_parallel(comm); }));
  }
}
