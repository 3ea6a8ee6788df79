// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// One rank aborts the job while the others compute. abort.sh, which starts the job, says how it must end.
// ranks: 3
// kills: abort.sh
#include <doctest/doctest.h>

#include <unistd.h>

#include "tutti/mpi.hpp"

TEST_CASE("a rank that aborts the job ends ranks that make no call") {
  auto comm = tutti::from_mpi();
  if (comm.rank() == 1) {
    auto alone = tutti::from_mpi(MPI_COMM_SELF);  // its ranks are not the whole job
    alone.abort("the disk is full", 7);
  }
  for (;;) ::pause();
}
