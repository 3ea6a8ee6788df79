// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// split, subgroup and mesh over MPI.
// ranks: 8
#include <doctest/doctest.h>

#include <cstdlib>

#include "call/groups.hpp"
#include "mpi/ranks.hpp"

using namespace tutti;
using namespace tutti::testing;

TEST_CASE("groups have the right ranks and serve every collective over MPI") {
  for (int const ranks : {1, 2, 4}) {
    CAPTURE(ranks);
    CHECK(on_ranks(ranks, [](auto& comm) { check_splits(comm); }) == "");
    CHECK(on_ranks(ranks, [](auto& comm) { check_subgroups(comm); }) == "");
  }
  CHECK(on_ranks(8, [](auto& comm) { check_meshes(comm); }) == "");
  CHECK(on_ranks(5, [](auto& comm) { check_overlapping_groups(comm); }) == "");
  CHECK(on_ranks(4, [](auto& comm) { check_random_groups(comm, 4, 60); }) == "");
}

TEST_CASE("a fault of one communicator does not reach another over MPI") {
  for (int const ranks : {2, 5}) {
    CAPTURE(ranks);
    CHECK(on_ranks(ranks, [](auto& comm) { check_independence(comm); }) == "");
  }
}

TEST_CASE("ranks that the launcher of another MPI has started are told that they are alone") {
  ::setenv("TUTTI_RANK", "1", 1);  // as if tutti-run had started more ranks than this MPI has
  ::setenv("TUTTI_SIZE", "1000", 1);
  error const e = error_of([] { static_cast<void>(from_mpi(MPI_COMM_WORLD)); });
  CHECK(e.code() == error_code::bad_argument);
  CHECK(contains(e, "tutti-run started 1000 ranks, but the MPI that the program is linked with has only "));
  CHECK(from_mpi(MPI_COMM_SELF).size() == 1);
  ::unsetenv("TUTTI_RANK");
  ::unsetenv("TUTTI_SIZE");
}

TEST_CASE("what makes no group is refused over MPI") {
  CHECK(on_ranks(3, [](auto& comm) { check_refused_lists(comm); }) == "");
  CHECK(on_ranks(6, [](auto& comm) { check_refused_meshes(comm); }) == "");
}

TEST_CASE("members that do not come are named over MPI") {
  CHECK(on_ranks(3, [](auto& comm) { check_leaving_member(comm); }) == "");
  CHECK(on_ranks(3, [](auto& comm) { check_refused_member(comm); }) == "");
  ::setenv("TUTTI_TIMEOUT", "3", 1);
  CHECK(on_ranks(3, [](auto& comm) { check_late_member(comm); }) == "");
  ::setenv("TUTTI_TIMEOUT", "20", 1);
}
