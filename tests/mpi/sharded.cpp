// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Sharded training, over MPI and over nodes.
// ranks: 4
// labels: once
// timeout: 200
#include "training/sharded/beside_one_process.hpp"

#include <doctest/doctest.h>

#include "mpi/ranks.hpp"

using namespace tutti;
using namespace tutti::testing;

TEST_CASE("shards are trained as a whole model over MPI") {
  for (int const ranks : {1, 2, 3, 4}) {
    CAPTURE(ranks);
    CHECK(on_ranks(ranks, [](auto& comm) { check_sharded_adam(comm); }) == "");
    CHECK(on_ranks(ranks, [](auto& comm) { check_sharded_misuse(comm); }) == "");
    CHECK(on_ranks(ranks, [](auto& comm) { check_unused_shards(comm); }) == "");
    CHECK(on_ranks(ranks, [](auto& comm) { check_low_precision<bfloat16>(comm); }) == "");
    CHECK(on_ranks(ranks, [](auto& comm) { check_deferred<float>(comm); }) == "");
    CHECK(on_ranks(ranks, [](auto& comm) { check_deferred_misuse(comm); }) == "");
  }
}

TEST_CASE("shards are trained as a whole model over nodes") {
  for (int const ranks_of_a_node : {1, 2, 4}) {
    CAPTURE(ranks_of_a_node);
    CHECK(on_ranks(4, on_nodes_of(ranks_of_a_node), [](auto& comm) { check_sharded_adam(comm); }) == "");
    CHECK(on_ranks(4, on_nodes_of(ranks_of_a_node), [](auto& comm) { check_unused_shards(comm); }) == "");
    CHECK(on_ranks(4, on_nodes_of(ranks_of_a_node), [](auto& comm) { check_deferred<float>(comm); }) == "");
  }
}

TEST_CASE("a rank that leaves during a sharded step is named over MPI") {
  for (int const stage : {2, 3})
    CHECK(on_ranks(3, [&](auto& comm) { check_sharded_loss(comm, stage, true, error_code::rank_left, [] {}); }) == "");
}
