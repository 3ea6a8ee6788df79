// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Training beside one process, over MPI and over nodes.
// ranks: 8
// labels: once
// timeout: 300
#include "training/equality/all_training.hpp"

#include <doctest/doctest.h>

#include "mpi/ranks.hpp"

using namespace tutti;
using namespace tutti::testing;

TEST_CASE("training equals that of one process over MPI") {
  for (int const ranks : compared_ranks) {
    CAPTURE(ranks);
    CHECK(on_ranks(ranks, [](auto& comm) { check_all_training(comm); }) == "");
  }
}

TEST_CASE("training equals that of one process over nodes") {
  for (int const ranks : compared_ranks) {
    CAPTURE(ranks);
    CHECK(on_ranks(ranks, on_nodes_of(2), [](auto& comm) { check_all_training(comm); }) == "");
  }
}
