// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The team of tutti over an MPI; compiled once for each MPI that there is.
#include "team_tutti.hpp"
#include "tutti/mpi.hpp"

namespace {

struct team : bench::tutti_team<tutti::mpi> {
  team(int, int) : tutti_team(tutti::from_mpi()) {}
};

}  // namespace

int main(int argc, char** argv) { return bench::run_team<team>(argc, argv); }
