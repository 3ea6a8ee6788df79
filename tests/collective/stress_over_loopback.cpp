// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Random operations in flight over loopback.
// labels: threads twin
// timeout: 300
#include <doctest/doctest.h>

#include "collective/stress.hpp"

using namespace tutti;
using namespace tutti::detail;
using namespace tutti::testing;

TEST_CASE("operations of all kinds are in flight at once over loopback") {
  CHECK_NOTHROW(run_threads(8, [](auto& comm) { check_stress(comm, 1, 1000); }));
}
