// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Which ranks are on this one's machine.
// ranks: 4
#include <doctest/doctest.h>

#include <array>
#include <cstddef>
#include <mpi.h>
#include <vector>

#include "mpi/ranks.hpp"

using namespace tutti;

namespace {

using machine_name = std::array<char, MPI_MAX_PROCESSOR_NAME>;

// The local ranks are those of equal names, in rank order.
template <class Communicator>
void check_machine(Communicator& comm) {
  std::vector<machine_name> mine(1), all(static_cast<std::size_t>(comm.size()));
  int length = 0;
  MPI_Get_processor_name(mine[0].data(), &length);
  all_gather(comm, mine, all);
  int before = 0, here = 0;
  for (int r = 0; r < comm.size(); ++r) {
    if (all[static_cast<std::size_t>(r)] != mine[0]) continue;
    ++here;
    before += r < comm.rank() ? 1 : 0;
  }
  CHECK(comm.local_rank() == before);
  CHECK(comm.local_size() == here);
}

}  // namespace

TEST_CASE("local ranks are those of the machine, in the order of the communicator") {
  auto& all = testing::world();
  check_machine(all);
  auto half = all.split(all.rank() % 2, -all.rank()).value();
  check_machine(half);
  auto pairs = all.split(all.rank() / 2).value();
  check_machine(pairs);
}
