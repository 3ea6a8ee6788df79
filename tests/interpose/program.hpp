// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Shared code of the MPI programs of this folder. They do not use tutti: their results must be right with it and
// without it.
#pragma once

#include <cstdio>
#include <mpi.h>
#include <string>
#include <vector>

namespace program {

inline int failures = 0;
inline int world_rank = 0;

template <class Value>
void expect(Value const& found, Value const& right, std::string const& what) {
  if (found == right) return;
  if (++failures <= 10) std::fprintf(stderr, "rank %d: %s is wrong\n", world_rank, what.c_str());
}

inline int rank_of(MPI_Comm comm) {
  int out = 0;
  MPI_Comm_rank(comm, &out);
  return out;
}
inline int size_of(MPI_Comm comm) {
  int out = 0;
  MPI_Comm_size(comm, &out);
  return out;
}

// Runs f() between MPI_Init_thread and MPI_Finalize; returns the exit code of main: 1 if a rank found a wrong result.
template <class F>
int run(int level, F&& f) {
  int provided = 0;
  MPI_Init_thread(nullptr, nullptr, level, &provided);
  world_rank = rank_of(MPI_COMM_WORLD);
  f(provided);
  int all = 0;
  MPI_Allreduce(&failures, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  if (world_rank == 0)
    std::printf("%s: %d ranks, %d wrong results\n", all == 0 ? "right" : "WRONG", size_of(MPI_COMM_WORLD), all);
  MPI_Finalize();
  return all == 0 ? 0 : 1;
}

// Calls f(comm) with the world, with its ranks reversed, with halves of it, and with each rank by itself.
template <class F>
void on_communicators(F&& f) {
  int const rank = rank_of(MPI_COMM_WORLD);
  MPI_Comm reverse = MPI_COMM_NULL, half = MPI_COMM_NULL;
  MPI_Comm_split(MPI_COMM_WORLD, 0, -rank, &reverse);
  MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &half);
  for (MPI_Comm const comm : {MPI_COMM_WORLD, reverse, half, MPI_COMM_SELF}) f(comm);
  MPI_Comm_free(&reverse);
  MPI_Comm_free(&half);
}

}  // namespace program
