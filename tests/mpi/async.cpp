// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Started calls, over MPI and over nodes.
// ranks: 4
// timeout: 200
#include <doctest/doctest.h>

#include "mpi/ranks.hpp"
#include "started/async.hpp"

using namespace tutti;
using namespace tutti::detail;
using namespace tutti::testing;

TEST_CASE("started calls do what blocking ones do over MPI") {
  for (int const ranks : {1, 2, 3, 4}) {
    CAPTURE(ranks);
    CHECK(on_ranks(ranks, [](auto& comm) { check_all_started<affine, compose>(comm); }) == "");
  }
  for (int const ranks : {2, 4}) {
    CAPTURE(ranks);
    CHECK(on_ranks(ranks, [](auto& comm) { check_several_communicators(comm); }) == "");
    CHECK(on_ranks(ranks, [](auto& comm) { check_lists(comm); }) == "");
    CHECK(on_ranks(ranks, [](auto& comm) { check_closing(comm); }) == "");
  }
}

TEST_CASE("started calls do what blocking ones do on a node") {
  CHECK(on_ranks(3, hierarchical_ranks, [](auto& comm) { check_lists(comm); }) == "");
}

TEST_CASE("started calls end with an error over MPI") {
  for (int const ranks : {2, 3}) {
    CAPTURE(ranks);
    CHECK(on_ranks(ranks, [](auto& comm) { check_started_mismatch(comm); }) == "");
    CHECK(on_ranks(ranks, [](auto& comm) { check_started_timeout(comm); }) == "");
  }
}
