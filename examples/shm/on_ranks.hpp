// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Starts an example over shared memory. Compiled with examples/mpi in the place of examples/shm, the same source runs over
// MPI.
#pragma once

#include <tutti/tutti.hpp>

// Calls f(comm) on the ranks that a launcher started, or on as many of its own.
template <class F>
void on_ranks(int ranks, F f) {
  tutti::run(ranks, f);
}
