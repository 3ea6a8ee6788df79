// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Continuations of started calls, over shm.
// labels: processes
#include <doctest/doctest.h>

#include "started/continuations.hpp"
#include "support/sanitized.hpp"

using namespace tutti;
using namespace tutti::detail;
using namespace tutti::testing;

TEST_CASE("what follows a call runs once, after it, over shm") {
  for (int const ranks : ranks_to_test({1, 2, 3, 5})) {
    CAPTURE(ranks);
    CHECK_NOTHROW(run_local(ranks, [](auto& comm) { check_then(comm); }));
    CHECK_NOTHROW(run_local(ranks, [](auto& comm) { check_then_throws(comm); }));
    CHECK_NOTHROW(run_local(ranks, [](auto& comm) { check_then_elsewhere(comm); }));
    CHECK_NOTHROW(run_local(ranks, [](auto& comm) { check_then_starts_batch(comm); }));
    CHECK_NOTHROW(run_local(ranks, [](auto& comm) { check_sequence(comm); }));
  }
  for (int const ranks : {2, 3}) {
    CAPTURE(ranks);
    CHECK_NOTHROW(run_local(ranks, [](auto& comm) { check_then_after_fault(comm); }));
  }
}
