// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A rank that cannot allocate a byte learns from an MPI with fault tolerance that another has ended. kills.sh repeats it.
// ranks: 3
// ulfm: kills.sh
// labels: alone
#include <doctest/doctest.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <thread>

#include "message/without_memory.hpp"
#include "tutti/mpi.hpp"

using namespace tutti;
using namespace tutti::detail;
using namespace tutti::testing;

TEST_CASE("a rank without any memory learns that another has ended") {
  start_mpi();
  if (!mpi_survives()) {
    std::puts("this MPI has no ULFM, or it is off: no rank is killed");
    return;
  }
  auto comm = from_mpi();
  barrier(comm);
  if (comm.rank() == 2) ::raise(SIGKILL);
  auto& ranks = comm.engine().transport();
  auto const until = deadline::after(std::chrono::seconds(20));
  if (comm.rank() == 1) max_at_once = 0;
  for (; !ranks.lost(2) && !until.passed(); std::this_thread::sleep_for(nap_length)) ranks.poll_notices();
  max_at_once = unlimited;
  INFO(comm.rank());
  CHECK(ranks.lost(2));
  comm = comm.shrink();
  CHECK(comm.size() == 2);
  barrier(comm);
  std::printf("one of %d survivors has finished\n", comm.size());
}
