// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A meeting that cannot begin.
// ranks: 2
#include "tutti/transport/mpi/meeting.hpp"

#include <doctest/doctest.h>

#include <mpi.h>

#include <chrono>
#include <vector>

#include "mpi/ranks.hpp"
#include "tutti/core/error.hpp"
#include "tutti/core/wait.hpp"
#include "tutti/transport/mpi/communicator.hpp"

using namespace tutti;
using namespace tutti::detail;
using namespace tutti::testing;

TEST_CASE("a meeting that cannot begin leaves no receive behind") {
  constexpr int tag = 77;
  int const rank = world().rank();
  mpi_communicator const own(MPI_COMM_WORLD, countdown(std::chrono::seconds(60)));
  std::vector<int> const members{0, 1, 99};  // the MPI refuses to receive from the last one
  if (rank == 0) CHECK_THROWS_AS(mpi_meeting(own.get(), tag, members, rank, 1), error);
  meet();  // otherwise the word may have arrived before the receive is cancelled
  int word = 1, there = 0, received = 0;
  if (rank == 1) MPI_Send(&word, 1, MPI_INT, 0, tag, own.get());
  for (auto const until = deadline::after(std::chrono::seconds(10)); rank == 0 && there == 0 && !until.passed();)
    MPI_Iprobe(1, tag, own.get(), &there, MPI_STATUS_IGNORE);
  CHECK((there != 0) == (rank == 0));
  if (there != 0) MPI_Recv(&received, 1, MPI_INT, 1, tag, own.get(), MPI_STATUS_IGNORE);
  CHECK(received == (rank == 0 ? word : 0));
  meet();
}
