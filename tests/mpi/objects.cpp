// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Objects, named arrays and seeds over MPI.
// ranks: 5
// labels: once
#include <doctest/doctest.h>

#include "collective/objects.hpp"
#include "mpi/ranks.hpp"

using namespace tutti::testing;

TEST_CASE("objects, named arrays and seeds over MPI") {
  CHECK(on_ranks(5, [](auto& comm) { check_objects(comm); }) == "");
  CHECK(on_ranks(3, [](auto& comm) { check_named(comm); }) == "");
  CHECK(on_ranks(4, [](auto& comm) { check_bad_objects(comm); }) == "");
}
