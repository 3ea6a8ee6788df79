// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Layers that ranks divide, over MPI.
// ranks: 8
// labels: once
#include "training/tensor/tensor_parallel.hpp"

#include <doctest/doctest.h>

#include "mpi/ranks.hpp"

using namespace tutti;
using namespace tutti::testing;

TEST_CASE("ranks that divide layers exchange what one process computes, over MPI") {
  for (int const ranks : {1, 2, 3, 4, 8}) {
    CAPTURE(ranks);
    CHECK(on_ranks(ranks, [](auto& comm) { check_tensor_parallel(comm); }) == "");
  }
}
