// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Policies of sums over MPI and over nodes: left to right, independent of the order, of the algorithm and of the number of ranks,
// compensated.
// ranks: 8
#include <doctest/doctest.h>

#include "collective/determinism.hpp"
#include "mpi/ranks.hpp"

using namespace tutti::testing;

TEST_CASE("sums by each policy have the bits of one rank over MPI") {
  for (int const ranks : policy_ranks) {
    CAPTURE(ranks);
    CHECK(on_ranks(ranks, [](auto& comm) { check_policies_of_sums(comm); }) == "");
  }
}

TEST_CASE("sums by each policy have the bits of one rank over nodes") {
  for (int const ranks : policy_ranks)
    for (int const ranks_of_a_node : {1, 2, 3, 8}) {
      if (ranks_of_a_node > 1 && ranks_of_a_node > ranks) continue;
      CAPTURE(ranks);
      CAPTURE(ranks_of_a_node);
      CHECK(on_ranks(ranks, on_nodes_of(ranks_of_a_node), [](auto& comm) { check_policies_of_sums(comm); }) == "");
    }
}
