// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Ranks that disagree, are late or leave, over MPI and over nodes.
// ranks: 4
// labels: waits
// timeout: 200
#include "fault/mismatches.hpp"

#include <doctest/doctest.h>

#include "mpi/ranks.hpp"

using namespace tutti;
using namespace tutti::detail;
using namespace tutti::testing;

TEST_CASE("ranks that disagree, do not come or leave are named at all ranks over MPI") {
  CHECK(on_ranks(4, [](auto& comm) { check_disagreements(comm); }) == "");
}

TEST_CASE("ranks that disagree, do not come or leave are named at all ranks over nodes") {
  for (int const on_a_node : {3, 4}) {
    CAPTURE(on_a_node);
    CHECK(on_ranks(4, on_nodes_of(on_a_node), [](auto& comm) { check_disagreements(comm); }) == "");
  }
}
