// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// One rank calls exit() with an open communicator, as programs do that cannot open a file: MPI_Finalize then begins, in which the rank
// waits for the others. exits.sh, which starts the job, says how it must end.
// ranks: 3
// labels: waits
// kills: exits.sh
#include <doctest/doctest.h>

#include <cstdio>
#include <cstdlib>

#include "support/expect.hpp"
#include "tutti/mpi.hpp"

using namespace tutti;

namespace {

template <class Transport>
void leave_one_by_one() {
  auto comm = from_mpi<Transport>();
  if (comm.rank() == 1) std::exit(7);
  error const e = tutti::testing::error_of([&] {
    for (;;) barrier(comm);
  });
  std::fprintf(stderr, "%s: %s\n", e.code() == error_code::rank_left ? "as expected" : "wrong", e.what());
  std::exit(0);
}

}  // namespace

TEST_CASE("others learn at once of a rank that exits over MPI") {
  char const* const levels = std::getenv("TUTTI_TEST_LEVELS");
  if (levels != nullptr && *levels != '\0') leave_one_by_one<hierarchical>();
  leave_one_by_one<tutti::mpi>();
}
