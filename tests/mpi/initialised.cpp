// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A program that initialises and finalizes MPI itself, for one thread, and uses its own communicators beside tutti.
// ranks: 4
#include <doctest/doctest.h>

#include <mpi.h>
#include <optional>
#include <thread>
#include <vector>

#include "tutti/mpi.hpp"

using namespace tutti;
using namespace tutti::detail;

namespace {

// Destroyed when the process exits, after MPI_Finalize.
std::optional<communicator<mpi>> forgotten;

}  // namespace

TEST_CASE("a program's own MPI, and parts of its ranks") {
  int provided = 0;
  REQUIRE(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided) == MPI_SUCCESS);
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  {
    // Odd and even ranks, in reverse order.
    MPI_Comm part = MPI_COMM_NULL;
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, -rank, &part);
    communicator<mpi> half = from_mpi(part), all = from_mpi(MPI_COMM_WORLD);
    MPI_Comm_free(&part);
    CHECK(half.size() == 2);
    CHECK(half.rank() == (rank < 2 ? 1 : 0));
    CHECK(all.rank() == rank);

    // The program's messages and tutti's do not mix, with the same tag and order.
    int const right = (rank + 1) % all.size(), left = (rank + all.size() - 1) % all.size();
    int mine = 100 + rank, got = 0;
    MPI_Request requests[2];
    MPI_Irecv(&got, 1, MPI_INT, left, 0, MPI_COMM_WORLD, &requests[0]);
    std::vector<int> v(1000, rank), w(10, rank);
    all_reduce(half, v);
    all_reduce(all, w);
    MPI_Isend(&mine, 1, MPI_INT, right, 0, MPI_COMM_WORLD, &requests[1]);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    CHECK(got == 100 + left);
    CHECK(v.front() == (rank % 2 == 0 ? 2 : 4));
    CHECK(w.front() == 6);

    int level = 0;
    MPI_Query_thread(&level);
    if (level < MPI_THREAD_SERIALIZED)
      std::thread([&] {
        CHECK_THROWS_WITH_AS(barrier(all), doctest::Contains("from a thread that MPI does not allow"), error);
      }).join();
    barrier(all);
  }
  forgotten = from_mpi();
  int const next = (rank + 1) % forgotten->size(), previous = (rank + forgotten->size() - 1) % forgotten->size();
  std::vector<int> sent(1, rank), received(1);
  send_recv(*forgotten, sent, next, received, previous);
  CHECK(received[0] == previous);
  barrier(*forgotten);
  communicator<mpi> closed_late = from_mpi();
  all_reduce(closed_late, sent);
  communicator<hierarchical> on_node = from_mpi<hierarchical>();
  all_reduce(on_node, sent);
  // A rank makes no such call, and sends no such message.
  communicator<mpi> in_flight = from_mpi();
  std::vector<int> left(1, rank), awaited(1);
  work open_call, open_receive;
  if (rank > 0) {
    open_call = all_reduce(async(in_flight), left);
    open_receive = irecv(in_flight, awaited, 0);
  }
  MPI_Finalize();
  CHECK_THROWS_WITH_AS(static_cast<void>(from_mpi()), doctest::Contains("already been finalized"), error);
  doctest::Contains const refusal("tutti was called over MPI after MPI_Finalize");
  if (rank > 0) {
    CHECK_THROWS_WITH_AS(open_call.wait(), refusal, error);
    CHECK_THROWS_WITH_AS(open_receive.wait(), refusal, error);
  }
  for (auto* const comm : {&*forgotten, &closed_late}) {
    CHECK_THROWS_WITH_AS(barrier(*comm), refusal, error);
    CHECK_THROWS_WITH_AS(all_reduce(*comm, sent), refusal, error);
    CHECK_THROWS_WITH_AS(all_reduce(async(*comm), sent).wait(), refusal, error);
    CHECK_THROWS_WITH_AS(send(*comm, sent, next), refusal, error);
    CHECK_THROWS_WITH_AS(static_cast<void>(comm->split(0)), refusal, error);
    CHECK_THROWS_WITH_AS(static_cast<void>(comm->subgroup({rank})), refusal, error);
    CHECK_THROWS_WITH_AS(comm->revoke("late"), refusal, error);
    CHECK_THROWS_WITH_AS(static_cast<void>(comm->shrink()), refusal, error);
  }
  CHECK_THROWS_WITH_AS(all_reduce(on_node, sent), refusal, error);
}
