// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Every registered algorithm over MPI, on groups of the launched ranks.
// ranks: 8
#include <doctest/doctest.h>

#include "collective/registered.hpp"
#include "mpi/ranks.hpp"

using namespace tutti;
using namespace tutti::detail;
using namespace tutti::testing;

TEST_CASE("every registered algorithm gives the right result over MPI") {
  for (int const ranks : {1, 2, 3, 4, 5, 7, 8}) {
    CAPTURE(ranks);
    CHECK(on_ranks(ranks, [](auto& comm) { check_everything_registered(comm); }) == "");
  }
}

TEST_CASE("messages of many slices arrive whole over MPI") {
  for (int const ranks : {2, 3, 8}) {
    CAPTURE(ranks);
    CHECK(on_ranks(ranks, [](auto& comm) { check_large_messages(comm, 100'000); }) == "");
  }
}
