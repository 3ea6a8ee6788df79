// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// split, subgroup and mesh over loopback.
// labels: threads twin
// timeout: 200
#include <doctest/doctest.h>

#include "call/groups.hpp"
#include "support/few_cores.hpp"

using namespace tutti;
using namespace tutti::detail;
using namespace tutti::testing;

TEST_CASE("groups have the right ranks and serve every collective over loopback") {
  for (int ranks = 1; ranks <= 8; ranks += sanitized ? 3 : 1) {
    CAPTURE(ranks);
    CHECK_NOTHROW(run_threads(ranks, [](auto& comm) { check_splits(comm); }));
    CHECK_NOTHROW(run_threads(ranks, [](auto& comm) { check_subgroups(comm); }));
    CHECK_NOTHROW(run_threads(ranks, [](auto& comm) { check_overlapping_groups(comm); }));
    CHECK_NOTHROW(run_threads(ranks, [](auto& comm) { check_meshes(comm); }));
    CHECK_NOTHROW(run_threads(ranks, [&](auto& comm) { check_random_groups(comm, static_cast<unsigned>(ranks)); }));
  }
}

TEST_CASE("a fault or the end of one communicator does not reach another over loopback") {
  for (int const ranks : {2, 5}) CHECK_NOTHROW(run_threads(ranks, [](auto& comm) { check_independence(comm); }));
  CHECK_NOTHROW(run_threads(5, [](auto& comm) { check_numbering(comm); }));
  CHECK_NOTHROW(run_threads(4, [](auto& comm) { check_revoked_mesh(comm); }));
}

TEST_CASE("groups know that other ranks use their cores over loopback") {
  few_cores const two(2);
  CHECK_NOTHROW(run_threads(3, [](auto& comm) { check_crowded_groups(comm); }));
}

TEST_CASE("what makes no group is refused over loopback") {
  CHECK_NOTHROW(run_threads(3, [](auto& comm) { check_refused_lists(comm); }));
  CHECK_NOTHROW(run_threads(6, [](auto& comm) { check_refused_meshes(comm); }));
}
