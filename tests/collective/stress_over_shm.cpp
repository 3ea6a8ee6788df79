// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Random operations in flight over shm.
// labels: processes
// timeout: 300
#include <doctest/doctest.h>

#include "collective/stress.hpp"

using namespace tutti;
using namespace tutti::detail;
using namespace tutti::testing;

TEST_CASE("operations of all kinds are in flight at once over shm") {
  CHECK_NOTHROW(run_local(8, [](auto& comm) { check_stress(comm, 2, 3000); }));
}
