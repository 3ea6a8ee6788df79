// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Pipelines over MPI and over nodes.
// ranks: 4
// labels: once
#include "training/pipeline/pipeline.hpp"

#include <doctest/doctest.h>

#include "mpi/ranks.hpp"

using namespace tutti;
using namespace tutti::testing;

TEST_CASE("a pipeline computes what one process does over MPI") {
  for (int const ranks : {1, 2, 3, 4}) {
    CAPTURE(ranks);
    CHECK(on_ranks(ranks, [](auto& comm) { check_pipelines(comm); }) == "");
  }
  CHECK(on_ranks(3, [](auto& comm) { check_large_activations(comm); }) == "");
  CHECK(on_ranks(4, [](auto& comm) { check_pipelines_of_a_mesh(comm); }) == "");
}

TEST_CASE("a pipeline computes what one process does over nodes") {
  for (int const ranks_of_a_node : {1, 2, 4}) {
    CAPTURE(ranks_of_a_node);
    CHECK(on_ranks(4, on_nodes_of(ranks_of_a_node), [](auto& comm) { check_large_activations(comm); }) == "");
  }
}

TEST_CASE("a stage that fails on one rank ends the batch on all over MPI") {
  CHECK(on_ranks(3, [](auto& comm) { check_throwing_stages(comm, 1); }) == "");
}

TEST_CASE("ranks that run a batch that others evaluate are told over MPI") {
  for (int const odd : {0, 2}) CHECK(on_ranks(3, [&](auto& comm) { check_mixed_calls(comm, odd); }) == "");
}
