// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A notice board whose transport could not be made.
// ranks: 1
#include "tutti/transport/mpi/board.hpp"

#include <doctest/doctest.h>

#include <mpi.h>

#include <chrono>

#include "tutti/core/wait.hpp"
#include "tutti/transport/mpi/library.hpp"

using namespace tutti::detail;

TEST_CASE("a board that nobody closes leaves no receive behind") {
  start_mpi();
  constexpr int tag = 77;
  {
    mpi_board const early(MPI_COMM_SELF, MPI_COMM_SELF, tag, 0, 1, 7);
  }
  int word = 1, there = 0, received = 0;
  MPI_Request sent = MPI_REQUEST_NULL;
  MPI_Isend(&word, 1, MPI_INT, 0, tag, MPI_COMM_SELF, &sent);
  for (auto const until = deadline::after(std::chrono::seconds(10)); there == 0 && !until.passed();)
    MPI_Iprobe(0, tag, MPI_COMM_SELF, &there, MPI_STATUS_IGNORE);
  CHECK(there != 0);
  if (there != 0) MPI_Recv(&received, 1, MPI_INT, 0, tag, MPI_COMM_SELF, MPI_STATUS_IGNORE);
  CHECK(received == word);
  MPI_Wait(&sent, MPI_STATUS_IGNORE);
}
