// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Messages between two ranks, over MPI and over nodes.
// ranks: 4
// timeout: 280
#include <doctest/doctest.h>

#include <vector>

#include "message/messages.hpp"
#include "mpi/ranks.hpp"

using namespace tutti;
using namespace tutti::detail;
using namespace tutti::testing;

TEST_CASE("messages arrive over MPI") {
  for (int const ranks : {1, 2, 3, 4}) {
    CAPTURE(ranks);
    CHECK(on_ranks(ranks, [](auto& comm) { check_messages(comm); }) == "");
  }
}

TEST_CASE("messages arrive on nodes and across them") {
  CHECK(on_ranks(4, on_nodes_of(4), [](auto& comm) { check_messages(comm); }) == "");
  CHECK(on_ranks(4, on_nodes_of(2), [](auto& comm) { check_messages(comm); }) == "");
}

TEST_CASE("messages end with an error over MPI") {
  for (int const ranks : {2, 3}) {
    CAPTURE(ranks);
    CHECK(on_ranks(ranks, [](auto& comm) { check_unfit_messages(comm); }) == "");
    CHECK(on_ranks(ranks, [](auto& comm) { check_circles(comm); }) == "");
    CHECK(on_ranks(ranks, [](auto& comm) { check_absent_ranks(comm); }) == "");
    CHECK(on_ranks(ranks, [](auto& comm) { check_probes_in_vain(comm); }) == "");
  }
}

TEST_CASE("ranks close although messages have no receive, and receives no message") {
  CHECK(on_ranks(3, [](auto& comm) { check_receives_at_end(comm); }) == "");
  CHECK(on_ranks(4, on_nodes_of(2), [](auto& comm) { check_receives_at_end(comm); }) == "");
  CHECK(on_ranks(3, [](auto& comm) { check_sends_at_end(comm); }) == "");
  CHECK(on_ranks(4, on_nodes_of(2), [](auto& comm) { check_sends_at_end(comm); }) == "");
}

TEST_CASE("messages that nobody asked for do not keep ranks from closing") {
  CHECK(on_ranks(3, [](auto& comm) {
          std::vector<int> const data(500, 1);
          for (int i = 0; i < 40; ++i) send(comm, data, (comm.rank() + 1) % 3, i);
        }) == "");
}
