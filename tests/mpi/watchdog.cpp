// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A rank dies inside the MPI's own collective or while others create a group, or never leaves a function of the MPI. watchdog.sh, which
// starts the jobs, says how they must end.
// ranks: 3
// kills: watchdog.sh
// labels: waits
#include <doctest/doctest.h>

#include <unistd.h>

#include <chrono>
#include <csignal>
#include <vector>

#include "tutti/mpi.hpp"

namespace {

// The MPI calls it.
struct deadly_sum {
  static constexpr bool commutative = true;
  bool dies;
  int operator()(int a, int b) const {
    if (dies) ::kill(::getpid(), SIGKILL);
    return a + b;
  }
};

int dies_in_creation = -1;  // this rank

}  // namespace

extern "C" int MPI_Comm_create_group(MPI_Comm comm, MPI_Group group, int tag, MPI_Comm* made) {
  int rank = 0;
  MPI_Comm_rank(comm, &rank);
  if (rank == dies_in_creation) {
    ::usleep(200'000);  // the others are inside
    ::kill(::getpid(), SIGKILL);
  }
  return PMPI_Comm_create_group(comm, group, tag, made);
}

TEST_CASE("ranks do not wait for ever for one that died inside the MPI's own collective") {
  std::signal(SIGUSR1, SIG_IGN);  // by which the launcher of MPICH tells ranks of the loss
  auto comm = tutti::from_mpi();
  std::vector<int> data(1'000'000, 1);
  std::signal(SIGABRT, SIG_DFL);  // doctest would report the error instead of what the program does without a handler
  tutti::all_reduce<tutti::native>(comm, data, deadly_sum{comm.rank() == 1});
  FAIL("the call returned");
}

TEST_CASE("ranks do not wait for ever for a member that ended while they create a group") {
  std::signal(SIGUSR1, SIG_IGN);
  auto comm = tutti::from_mpi();
  std::signal(SIGABRT, SIG_DFL);
  dies_in_creation = 1;
  auto const group = comm.subgroup({2, 1, 0});
  FAIL("a group has a member that ended");
}

TEST_CASE("a rank that never leaves a function of the MPI while a communicator is created ends") {
  auto const world = tutti::from_mpi();
  std::signal(SIGABRT, SIG_DFL);
  // MPI_Test calls this function of a request whose operation has ended.
  auto const never_returns = [](void*, MPI_Status*) {
    while (true) ::pause();
    return MPI_SUCCESS;
  };
  auto const freed = [](void*) { return MPI_SUCCESS; };
  auto const cancelled = [](void*, int) { return MPI_SUCCESS; };
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Grequest_start(never_returns, freed, cancelled, nullptr, &request);
  MPI_Grequest_complete(request);
  tutti::detail::countdown until(std::chrono::minutes(5));
  tutti::detail::mpi_wait(request, until, MPI_COMM_WORLD, [] {});
  FAIL("the call returned");
}
