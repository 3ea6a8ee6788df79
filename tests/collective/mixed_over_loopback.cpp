// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Random sequences of collectives over loopback.
// labels: threads twin optimised
// timeout: 200
#include <doctest/doctest.h>

#include "collective/mixed.hpp"

TEST_CASE("random sequences of collectives do not disturb each other over loopback") {
  unsigned seed = 1;
  for (int const ranks : tutti::testing::ranks_to_test({2, 3, 4, 8})) {
    CAPTURE(ranks);
    CHECK_NOTHROW(tutti::run_threads(
        ranks, [&](auto& comm) { tutti::testing::check_random_sequence(comm, seed, tutti::testing::many_calls); }));
    ++seed;
  }
}
