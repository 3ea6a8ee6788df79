// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Prepared calls, batches and continuations, over MPI and over nodes.
// ranks: 4
// labels: once
// timeout: 200
#include "started/persistent.hpp"

#include <doctest/doctest.h>

#include <cstdlib>

#include "collective/coalesced.hpp"
#include "mpi/ranks.hpp"
#include "started/buffer_check.hpp"
#include "started/continuations.hpp"

using namespace tutti;
using namespace tutti::detail;
using namespace tutti::testing;

TEST_CASE("calls are prepared and started over MPI") {
  for (int const ranks : {1, 2, 3, 4}) {
    CAPTURE(ranks);
    CHECK(on_ranks(ranks, [](auto& comm) { check_all_prepared<affine, compose>(comm); }) == "");
    CHECK(on_ranks(ranks, [](auto& comm) { check_prepared_messages(comm); }) == "");
    CHECK(on_ranks(ranks, [](auto& comm) { check_prepared_wrong(comm); }) == "");
    CHECK(on_ranks(ranks, [](auto& comm) { check_lists_of_arrays(comm); }) == "");
    CHECK(on_ranks(ranks, [](auto& comm) { check_batches(comm); }) == "");
    CHECK(on_ranks(ranks, [](auto& comm) { check_batches_in_flight(comm); }) == "");
    CHECK(on_ranks(ranks, [](auto& comm) { check_then(comm); }) == "");
    CHECK(on_ranks(ranks, [](auto& comm) { check_then_throws(comm); }) == "");
    CHECK(on_ranks(ranks, [](auto& comm) { check_sequence(comm); }) == "");
  }
}

TEST_CASE("calls are prepared and started on a node") {
  CHECK(on_ranks(3, hierarchical_ranks, [](auto& comm) { check_prepared<affine, compose>(comm, 300, {}, 1); }) == "");
  CHECK(on_ranks(3, hierarchical_ranks, [](auto& comm) { check_prepared_messages(comm); }) == "");
  CHECK(on_ranks(3, hierarchical_ranks, [](auto& comm) { check_batches(comm); }) == "");
  CHECK(on_ranks(3, hierarchical_ranks, [](auto& comm) { check_then(comm); }) == "");
}

TEST_CASE("memory of a call that has not ended is its own over MPI") {
  ::setenv("TUTTI_CHECK", "buffers", 1);
  for (int const ranks : {2, 3}) {
    CAPTURE(ranks);
    CHECK(on_ranks(ranks, [](auto& comm) { check_overlaps(comm); }) == "");
    CHECK(on_ranks(ranks, [](auto& comm) { check_changes(comm); }) == "");
    CHECK(on_ranks(ranks, [](auto& comm) { check_peers_of_refused(comm); }) == "");
  }
  ::unsetenv("TUTTI_CHECK");
}

TEST_CASE("prepared calls end with an error over MPI") {
  for (int const ranks : {2, 3}) {
    CAPTURE(ranks);
    CHECK(on_ranks(ranks, [](auto& comm) { check_prepared_fault(comm); }) == "");
    CHECK(on_ranks(ranks, [](auto& comm) { check_then_after_fault(comm); }) == "");
  }
}
