// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The team of tutti over an MPI, alone or with shared memory inside nodes. It is compiled for each installed MPI.
#include <string>

#include "team_tutti.hpp"
#include "tutti/mpi.hpp"

namespace {

struct team {
  bench::tutti_team<tutti::mpi> over_mpi{tutti::from_mpi()};
  bench::tutti_team<tutti::hierarchical> over_nodes{tutti::from_mpi<tutti::hierarchical>()};

  team(int, int) {}
  static std::string version() { return decltype(over_mpi)::version(); }

  template <class Kind>
  bench::contender prepare(bench::task const& t, bench::json const& wanted) {
    if (wanted["transport"] == "hierarchical") return over_nodes.prepare<Kind>(t, wanted);
    return over_mpi.prepare<Kind>(t, wanted);
  }
};

}  // namespace

int main(int argc, char** argv) { return bench::run_team<team>(argc, argv); }
