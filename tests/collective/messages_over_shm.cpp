// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Messages between two ranks, over shm; and what is said where a rank is killed.
// labels: processes
// timeout: 200
#include <doctest/doctest.h>

#include <array>
#include <chrono>
#include <csignal>
#include <vector>

#include "collective/messages.hpp"

using namespace tutti;
using namespace tutti::testing;

TEST_CASE("messages arrive over shm") {
  for (int const ranks : {1, 2, 3, 4, 5, 8}) {
    CAPTURE(ranks);
    CHECK_NOTHROW(run_local(ranks, [](auto& comm) { check_messages(comm); }));
  }
  for (int const ranks : {2, 4}) {
    CAPTURE(ranks);
    CHECK_NOTHROW(run_local(ranks, [](auto& comm) { check_messages_by_thread(comm); }));
  }
}

TEST_CASE("messages end with an error over shm") {
  for (int const ranks : {2, 3}) {
    CAPTURE(ranks);
    CHECK_NOTHROW(run_local(ranks, [](auto& comm) { check_unfit_messages(comm); }));
    CHECK_NOTHROW(run_local(ranks, [](auto& comm) { check_circles(comm); }));
    CHECK_NOTHROW(run_local(ranks, [](auto& comm) { check_absent_ranks(comm); }));
  }
}

TEST_CASE("a rank that is killed ends the messages of all who wait for it") {
  for (int const way : {0, 1, 2}) {
    CAPTURE(way);
    auto const run = [&](auto& all) {
      auto comm = all.subgroup({0, 1, 2});
      if (comm.rank() == 1) ::raise(SIGKILL);
      std::vector<int> data(1000000, 1);
      auto const wait = [&] {
        if (way == 0) send(comm, data, 1);
        else if (way == 1) recv(comm, data, any_source);
        else irecv(comm, data, 1).wait();
      };
      expect_error(error_of(wait), error_code::rank_lost, "rank 1 (process ");
      expect_error(error_of([&] { barrier(comm); }), error_code::rank_lost, "while rank ");
    };
    CHECK_THROWS_WITH_AS(
        run_local(3, run),
        doctest::Contains("tutti: rank 1 was ended by signal 9 (Killed); the first of them is the cause"), error);
  }
}
