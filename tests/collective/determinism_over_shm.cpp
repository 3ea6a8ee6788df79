// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Policies of sums over shm: left to right, independent of the order, of the algorithm and of the number of ranks, compensated.
// labels: processes
#include <doctest/doctest.h>

#include "collective/determinism.hpp"

using namespace tutti::testing;

TEST_CASE("sums by each policy have the bits of one rank over shm") {
  for (int const ranks : policy_ranks) {
    CAPTURE(ranks);
    CHECK_NOTHROW(tutti::run_local(ranks, [](auto& comm) { check_policies_of_sums(comm); }));
  }
}
