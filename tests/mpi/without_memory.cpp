// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A rank runs out of memory for a message over MPI: it gets the exception, and all others are told which rank that is.
// ranks: 3
// labels: alone
#include "message/without_memory.hpp"

#include <doctest/doctest.h>

#include "mpi/ranks.hpp"

using namespace tutti;
using namespace tutti::testing;

TEST_CASE("a rank without any memory says so to all over MPI") {
  CHECK(on_ranks(world().size(), [](auto& comm) {
          std::vector<int> out(1), in(1);
          send_recv(comm, out, (comm.rank() + 1) % comm.size(), in, (comm.rank() + comm.size() - 1) % comm.size());
          send_what_cannot_be_kept(comm, 2000, 0, "out of memory",
                                   [](auto& on, auto& to) { recv(on, to, 0, 2, patient); });
          meet();  // none leaves before all have been told, because that is an error too
        }) == "");
}
