// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Every type with every operation that fits it, by every algorithm, over loopback.
// labels: threads wide
// timeout: 300
#include <doctest/doctest.h>

#include "collective/types.hpp"

TEST_CASE("every type and operation reduces by every algorithm over loopback") {
  for (int const ranks : {1, 2, 3, 5}) {
    CAPTURE(ranks);
    CHECK_NOTHROW(tutti::run_threads(ranks, [](auto& comm) { tutti::testing::check_types_and_operations(comm); }));
  }
}
