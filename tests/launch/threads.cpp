// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// run_threads: ranks as threads, and the first exception of one.
// labels: threads
#include <doctest/doctest.h>

#include <atomic>
#include <stdexcept>

#include "tutti/tutti.hpp"

using namespace tutti;
using namespace tutti::detail;

TEST_CASE("every rank runs once") {
  for (int const ranks : {1, 2, 7, 16}) {
    std::atomic<int> sum = 0, runs = 0;
    run_threads(ranks, [&](auto& comm) {
      CHECK(comm.size() == ranks);
      sum += comm.rank();
      ++runs;
    });
    CHECK(runs == ranks);
    CHECK(sum == ranks * (ranks - 1) / 2);
  }
}

TEST_CASE("an exception of one rank ends all, and is the one that is thrown") {
  for (int trial = 0; trial < 50; ++trial) {
    std::atomic<int> ended = 0;
    auto const rank = [&](auto& comm) {
      try {
        barrier(comm);  // it may end with the fault as well, because rank 1 need not wait until all have left it
        if (comm.rank() == 1) throw std::out_of_range("mine");
        while (true) barrier(comm);
      } catch (error const& e) {
        CHECK(e.code() == error_code::rank_left);
        CHECK(e.peer() == 1);
        ++ended;
        throw;
      }
    };
    CHECK_THROWS_WITH_AS(run_threads(4, rank), "mine", std::out_of_range);
    CHECK(ended == 3);
  }
}

TEST_CASE("numbers of ranks that make no sense are refused") {
  for (int const ranks : {0, -1, max_ranks + 1})
    CHECK_THROWS_WITH_AS(run_threads(ranks, [](auto&) {}), doctest::Contains("ranks were asked for"), error);
}
