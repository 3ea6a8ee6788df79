// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// TUTTI_CHECK=buffers, over shm.
// labels: processes
#include <doctest/doctest.h>

#include <cstdlib>

#include "started/buffer_check.hpp"
#include "support/sanitized.hpp"

using namespace tutti;
using namespace tutti::detail;
using namespace tutti::testing;

TEST_CASE("memory of a call that has not ended is its own over shm") {
  ::setenv("TUTTI_CHECK", "buffers", 1);
  for (int const ranks : ranks_to_test({2, 3, 5})) {
    CAPTURE(ranks);
    CHECK_NOTHROW(run_local(ranks, [](auto& comm) { check_overlaps(comm); }));
    CHECK_NOTHROW(run_local(ranks, [](auto& comm) { check_changes(comm); }));
    CHECK_NOTHROW(run_local(ranks, [](auto& comm) { check_peers_of_refused(comm); }));
    CHECK_NOTHROW(run_local(ranks, [](auto& comm) { check_unwinding(comm); }));
    CHECK_NOTHROW(run_local(ranks, [](auto& comm) { check_all_started<affine, compose>(comm); }));
    CHECK_NOTHROW(run_local(ranks, [](auto& comm) { check_all_prepared<affine, compose>(comm); }));
    CHECK_NOTHROW(run_local(ranks, [](auto& comm) { check_prepared_messages(comm); }));
  }
  ::setenv("TUTTI_CHECK", "everything", 1);
  CHECK_THROWS_WITH_AS(run_local(2, [](auto&) {}), doctest::Contains("TUTTI_CHECK=\"everything\" is not a check"),
                       error);
  ::unsetenv("TUTTI_CHECK");
}
