// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Ranks of a node end with an error that nobody catches. uncaught.sh, which starts the job, says what they must print.
// ranks: 3
// kills: uncaught.sh
#include <doctest/doctest.h>

#include <csignal>
#include <vector>

#include "tutti/mpi.hpp"

TEST_CASE("of an error that nobody catches on a node, one rank prints all") {
  auto comm = tutti::from_mpi<tutti::hierarchical>();
  std::vector<int> data(comm.rank() == 1 ? 5 : 4);
  std::signal(SIGABRT, SIG_DFL);                        // which doctest would report, too
  [&]() noexcept { tutti::all_reduce(comm, data); }();  // where doctest catches no exception
  FAIL("the call returned");
}
