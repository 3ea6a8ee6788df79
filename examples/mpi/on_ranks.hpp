// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Starts an example over MPI, where examples/shm has the same for shared memory.
#pragma once

#include <tutti/mpi.hpp>

// Calls f(comm) on the ranks that mpirun started.
template <class F>
void on_ranks(int, F f) {
  auto comm = tutti::from_mpi();
  f(comm);
}
