// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Included before a program, it replaces each blocking collective by the one that returns a request, and waits for it.
#pragma once

#include <mpi.h>

namespace program {

template <class... Parameters, class... Arguments>
int start_and_wait(int (*start)(Parameters...), Arguments... arguments) {
  MPI_Request request = MPI_REQUEST_NULL;
  int const code = start(arguments..., &request);
  if (code != MPI_SUCCESS) return code;
  int done = 0;
  MPI_Test(&request, &done, MPI_STATUS_IGNORE);
  return done != 0 ? MPI_SUCCESS : MPI_Wait(&request, MPI_STATUS_IGNORE);
}

}  // namespace program

#define MPI_Barrier(...) program::start_and_wait(MPI_Ibarrier, __VA_ARGS__)
#define MPI_Bcast(...) program::start_and_wait(MPI_Ibcast, __VA_ARGS__)
#define MPI_Gather(...) program::start_and_wait(MPI_Igather, __VA_ARGS__)
#define MPI_Gatherv(...) program::start_and_wait(MPI_Igatherv, __VA_ARGS__)
#define MPI_Scatter(...) program::start_and_wait(MPI_Iscatter, __VA_ARGS__)
#define MPI_Scatterv(...) program::start_and_wait(MPI_Iscatterv, __VA_ARGS__)
#define MPI_Allgather(...) program::start_and_wait(MPI_Iallgather, __VA_ARGS__)
#define MPI_Allgatherv(...) program::start_and_wait(MPI_Iallgatherv, __VA_ARGS__)
#define MPI_Alltoall(...) program::start_and_wait(MPI_Ialltoall, __VA_ARGS__)
#define MPI_Alltoallv(...) program::start_and_wait(MPI_Ialltoallv, __VA_ARGS__)
#define MPI_Allreduce(...) program::start_and_wait(MPI_Iallreduce, __VA_ARGS__)
#define MPI_Reduce(...) program::start_and_wait(MPI_Ireduce, __VA_ARGS__)
#define MPI_Reduce_scatter(...) program::start_and_wait(MPI_Ireduce_scatter, __VA_ARGS__)
#define MPI_Reduce_scatter_block(...) program::start_and_wait(MPI_Ireduce_scatter_block, __VA_ARGS__)
#define MPI_Scan(...) program::start_and_wait(MPI_Iscan, __VA_ARGS__)
#define MPI_Exscan(...) program::start_and_wait(MPI_Iexscan, __VA_ARGS__)
