// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A wait for a request that fails before it has begun.
// ranks: 2
#include <doctest/doctest.h>

#include <chrono>
#include <mpi.h>

#include "mpi/ranks.hpp"
#include "support/environment.hpp"
#include "tutti/mpi.hpp"

using namespace tutti;
using namespace tutti::detail;
using namespace tutti::testing;

TEST_CASE("where a wait for the MPI cannot begin, the memory of the request is left to the MPI") {
  world();
  MPI_Request barrier = MPI_REQUEST_NULL;
  REQUIRE(MPI_Ibarrier(MPI_COMM_WORLD, &barrier) == MPI_SUCCESS);
  countdown until(std::chrono::seconds(60));
  int abandoned = 0;
  auto const wait = [&] { mpi_wait(barrier, until, MPI_COMM_WORLD, [&] { ++abandoned; }); };
  {
    environment const variable{{"TUTTI_WATCHDOG", "yes"}};
    CHECK_THROWS_WITH_AS(wait(), doctest::Contains("TUTTI_WATCHDOG=\"yes\" is not 0 or 1"), error);
  }
  CHECK(abandoned == 1);
  MPI_Wait(&barrier, MPI_STATUS_IGNORE);
}
