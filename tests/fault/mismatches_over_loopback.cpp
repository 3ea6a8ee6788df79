// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Ranks that disagree, do not come or leave over loopback.
// labels: threads waits
#include <doctest/doctest.h>

#include "fault/mismatches.hpp"

using namespace tutti;
using namespace tutti::detail;
using namespace tutti::testing;

TEST_CASE("ranks that disagree, do not come or leave are named at all ranks over loopback") {
  for (int const ranks : {3, 4}) CHECK_NOTHROW(run_threads(ranks, [](auto& comm) { check_disagreements(comm); }));
}
