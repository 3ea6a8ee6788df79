// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Types that are no integers, with every operation that fits them, by every algorithm, over shm.
// labels: processes wide
// timeout: 300
#include <doctest/doctest.h>

#include "collective/types.hpp"

using namespace tutti::testing;

TEST_CASE("types that are no integers reduce by every operation and every algorithm over shm") {
  for (int const ranks : {1, 2, 3, 5}) {
    CAPTURE(ranks);
    CHECK_NOTHROW(tutti::run_local(
        ranks, [](auto& comm) { check_types_and_operations<decltype(floating_types{} + other_types{})>(comm); }));
  }
}
