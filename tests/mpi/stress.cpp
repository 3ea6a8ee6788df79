// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Random operations in flight over MPI and on the nodes of the machine.
// ranks: 4
// timeout: 200
#include <doctest/doctest.h>

#include "collective/stress.hpp"
#include "mpi/ranks.hpp"

using namespace tutti;
using namespace tutti::detail;
using namespace tutti::testing;

TEST_CASE("operations of all kinds are in flight at once over MPI") {
  CHECK(on_ranks(world().size(), [](auto& comm) { check_stress(comm, 3, 1000); }) == "");
}

TEST_CASE("operations of all kinds are in flight at once on a node") {
  CHECK(on_ranks(world().size(), hierarchical_ranks, [](auto& comm) { check_stress(comm, 4, 1000); }) == "");
}
