// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Gradients in buckets, over MPI and over nodes.
// ranks: 4
// labels: once
// timeout: 200
#include "training/data_parallel.hpp"

#include <doctest/doctest.h>

#include "mpi/ranks.hpp"

using namespace tutti;
using namespace tutti::testing;

TEST_CASE("gradients in buckets are averaged over MPI") {
  for (int const ranks : {1, 2, 3, 4}) {
    CAPTURE(ranks);
    CHECK(on_ranks(ranks, [](auto& comm) { check_all_steps(comm); }) == "");
    CHECK(on_ranks(ranks, [](auto& comm) { check_same_bits(comm); }) == "");
    CHECK(on_ranks(ranks, [](auto& comm) { check_hooks(comm); }) == "");
    CHECK(on_ranks(ranks, [](auto& comm) { check_adaptive_buckets(comm); }) == "");
    CHECK(on_ranks(ranks, [](auto& comm) { check_broadcast(comm); }) == "");
    CHECK(on_ranks(ranks, [](auto& comm) { check_misuse(comm); }) == "");
  }
}

TEST_CASE("gradients in buckets are averaged over nodes") {
  for (int const ranks_of_a_node : {1, 2, 4}) {
    CAPTURE(ranks_of_a_node);
    CHECK(on_ranks(4, on_nodes_of(ranks_of_a_node), [](auto& comm) { check_all_steps(comm); }) == "");
    CHECK(on_ranks(4, on_nodes_of(ranks_of_a_node), [](auto& comm) { check_same_bits(comm); }) == "");
  }
}

TEST_CASE("gradients in buckets are averaged by priority over MPI and over nodes") {
  CHECK(on_ranks(4, [](auto& comm) { check_all_steps(comm, true); }) == "");
  CHECK(on_ranks(4, on_nodes_of(2), [](auto& comm) { check_all_steps(comm, true); }) == "");
}

TEST_CASE("ranks that train different models are told so over MPI") {
  CHECK(on_ranks(3, [](auto& comm) { check_mismatch(comm); }) == "");
}

TEST_CASE("a rank that leaves during the backward pass is named over MPI") {
  CHECK(on_ranks(3, [](auto& comm) { check_loss(comm, error_code::rank_left, [] {}); }) == "");
}
