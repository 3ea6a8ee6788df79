// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Ranks of a machine end with an error that nobody catches. uncaught.sh, which starts the job, says what they must print.
// ranks: 3
// kills: uncaught.sh
#include <doctest/doctest.h>

#include <csignal>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "tutti/mpi.hpp"

namespace {

template <class Transport>
void end_with_mismatch() {
  auto comm = tutti::from_mpi<Transport>();
  std::vector<int> data(comm.rank() == 1 ? 5 : 4);
  std::signal(SIGABRT, SIG_DFL);                        // which doctest would report, too
  [&]() noexcept { tutti::all_reduce(comm, data); }();  // where doctest catches no exception
}

}  // namespace

TEST_CASE("of an error that nobody catches on a machine, one rank prints all") {
  char const* const transport = std::getenv("TUTTI_TEST_TRANSPORT");
  REQUIRE(transport != nullptr);
  if (std::string_view(transport) == "mpi") end_with_mismatch<tutti::mpi>();
  else end_with_mismatch<tutti::hierarchical>();
  FAIL("the call returned");
}
