// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Members of a group that leave, are refused or come too late, over loopback.
// labels: threads twin waits
#include <doctest/doctest.h>

#include <cstdlib>

#include "call/groups.hpp"

using namespace tutti;
using namespace tutti::detail;
using namespace tutti::testing;

TEST_CASE("members that do not come are named over loopback") {
  for (int repeat = 0; repeat < 20; ++repeat)
    CHECK_NOTHROW(run_threads(3, [](auto& comm) { check_leaving_member(comm); }));
  CHECK_NOTHROW(run_threads(3, [](auto& comm) { check_refused_member(comm); }));
  ::setenv("TUTTI_TIMEOUT", "3", 1);
  CHECK_NOTHROW(run_threads(3, [](auto& comm) { check_late_member(comm); }));
  CHECK_NOTHROW(run_threads(3, [](auto& comm) { check_refused_late_members(comm); }));
}
