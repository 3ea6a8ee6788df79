// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// all_reduce of many arrays, and batches, over shm: the results of separate calls, for all bucket sizes, with few
// calls.
// labels: processes
#include <doctest/doctest.h>

#include "collective/coalesced.hpp"
#include "support/sanitized.hpp"

using namespace tutti;
using namespace tutti::detail;
using namespace tutti::testing;

TEST_CASE("many arrays in few calls are summed as each alone over shm") {
  for (int const ranks : ranks_to_test({1, 2, 3, 5})) {
    CAPTURE(ranks);
    CHECK_NOTHROW(run_local(ranks, [](auto& comm) { check_lists_of_arrays(comm); }));
  }
}

TEST_CASE("messages and collectives in one batch do what each alone does, in few calls over shm") {
  for (int const ranks : ranks_to_test({1, 2, 3, 5})) {
    CAPTURE(ranks);
    CHECK_NOTHROW(run_local(ranks, [](auto& comm) { check_batches(comm); }));
    CHECK_NOTHROW(run_local(ranks, [](auto& comm) { check_batches_of_columns(comm); }));
    CHECK_NOTHROW(run_local(ranks, [](auto& comm) { check_batches_in_flight(comm); }));
  }
}
