// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Random sequences of collectives over MPI.
// ranks: 5
#include <doctest/doctest.h>

#include "collective/mixed.hpp"
#include "mpi/ranks.hpp"

using namespace tutti::testing;

TEST_CASE("random sequences of collectives do not disturb each other over MPI") {
  unsigned seed = 1;
  for (int const ranks : {2, 3, 5}) {
    CAPTURE(ranks);
    CHECK(on_ranks(ranks, [&](auto& comm) { check_random_sequence(comm, seed, 500); }) == "");
    ++seed;
  }
}
