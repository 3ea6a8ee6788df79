// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Starting a prepared call allocates nothing over MPI and over nodes, except within the MPI.
// ranks: 2
// labels: alone
#include "started/quiet_starts.hpp"

#include <doctest/doctest.h>

#include "mpi/ranks.hpp"

using namespace tutti;
using namespace tutti::detail;
using namespace tutti::testing;

TEST_CASE("starts allocate nothing over MPI") {
  if (allocates_otherwise()) return;
  CHECK(on_ranks(2, [](auto& comm) { be_quiet(comm); }) == "");
}

TEST_CASE("starts allocate nothing over nodes") {
  if (allocates_otherwise()) return;
  for (int const on_a_node : {1, 2}) {
    CAPTURE(on_a_node);
    CHECK(on_ranks(2, on_nodes_of(on_a_node), [](auto& comm) { be_quiet(comm); }) == "");
  }
}
