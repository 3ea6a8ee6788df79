// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A rank that makes a collective late: the others wait for it. With TUTTI_MPI_NOTICE=1, the library tells the user which
// ranks are late.
// ranks: 2
// on tutti: MPI_Barrier
#include <chrono>
#include <cstdlib>
#include <mpi.h>
#include <thread>

#include "program.hpp"

using namespace program;

int main() {
  return run(MPI_THREAD_SINGLE, [](int) {
    MPI_Comm comm = MPI_COMM_NULL;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_set_name(comm, "meeting");
    int arrived = 1, all = 0;
    for (int i = 0; i < 5; ++i) {
      if (i == 4 && world_rank == 1 && std::getenv("TUTTI_MPI_NOTICE") != nullptr)
        std::this_thread::sleep_for(std::chrono::seconds(3));
      MPI_Barrier(comm);
    }
    MPI_Allreduce(&arrived, &all, 1, MPI_INT, MPI_SUM, comm);
    expect(all, 2, "a sum after a long wait");
    MPI_Comm_free(&comm);
  });
}
