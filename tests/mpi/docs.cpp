// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The code of docs/mpi-and-nodes.md.
// ranks: 4
#include <doctest/doctest.h>

#include <mpi.h>
#include <vector>

#include <tutti/mpi.hpp>

#include "support/expect.hpp"

TEST_CASE("the guide to MPI and nodes") {
  using tutti::testing::expect;
  std::vector<float> gradient(1000, 1.0f);

  {
    tutti::communicator<tutti::mpi> comm = tutti::from_mpi();  // of MPI_COMM_WORLD, or of the MPI_Comm that you pass
    tutti::all_reduce(comm, gradient);                         // scheduled by tutti, or native, whichever is faster
    tutti::all_reduce<tutti::native>(comm, gradient);          // MPI_Allreduce, once all ranks are in the call
    expect(gradient[0] == 16, "a sum of sums");
  }
  {
    auto comm = tutti::init<tutti::hierarchical>();    // under mpirun, on one node or many
    tutti::all_reduce(comm, gradient, tutti::mean{});  // shared memory inside nodes, MPI across
    tutti::all_reduce<tutti::two_level<tutti::ring, tutti::ring>>(comm, gradient, tutti::mean{});
    expect(gradient[0] == 16, "a mean");
  }
}
