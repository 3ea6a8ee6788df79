// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A start of what was prepared allocates nothing over loopback and over shm.
// labels: alone threads processes optimised unsanitized
#include "started/quiet_starts.hpp"

#include <doctest/doctest.h>

using namespace tutti;
using namespace tutti::detail;
using namespace tutti::testing;

TEST_CASE("starts allocate nothing") {
  if (allocates_otherwise()) return;
  for (int const ranks : {1, 2, 3}) {
    CAPTURE(ranks);
    CHECK_NOTHROW(run_threads(ranks, [](auto& comm) { be_quiet(comm); }));
    CHECK_NOTHROW(run_local(ranks, [](auto& comm) { be_quiet(comm); }));
  }
}
