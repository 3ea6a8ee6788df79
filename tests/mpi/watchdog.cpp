// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A rank dies inside the MPI's own collective. watchdog.sh, which starts the job, says how it must end.
// ranks: 3
// kills: watchdog.sh
// labels: waits
#include <doctest/doctest.h>

#include <unistd.h>

#include <csignal>
#include <vector>

#include "tutti/mpi.hpp"

namespace {

// The MPI calls it.
struct deadly_sum {
  static constexpr bool commutative = true;
  bool dies;
  int operator()(int a, int b) const {
    if (dies) ::kill(::getpid(), SIGKILL);
    return a + b;
  }
};

}  // namespace

TEST_CASE("ranks do not wait for ever for one that died inside the MPI's own collective") {
  std::signal(SIGUSR1, SIG_IGN);  // by which the launcher of MPICH tells ranks of the loss
  auto comm = tutti::from_mpi();
  std::vector<int> data(1'000'000, 1);
  std::signal(SIGABRT, SIG_DFL);  // doctest would report the error instead of what the program does without a handler
  tutti::all_reduce<tutti::native>(comm, data, deadly_sum{comm.rank() == 1});
  FAIL("the call returned");
}
