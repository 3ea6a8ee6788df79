// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A job that is stopped while its ranks wait for nothing, between two waits of init, goes on: the time does not count.
// labels: processes alone waits optimised native
#include "support/death_at_store.hpp"

#include <doctest/doctest.h>

#if defined(TUTTI_TEST_KILLS_AT_STORES)

#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <string>
#include <thread>
#include <vector>

#include "support/forked_rank.hpp"
#include "tutti/tutti.hpp"

using namespace tutti;
using namespace tutti::testing;
using namespace std::chrono_literals;

// Each rank stops before its first store to the segment, after they have met at the socket. Rank 1 is late to the next wait.
TEST_CASE("a stop between two waits of init does not count") {
  std::vector<pid_t> ranks;
  for (int r = 0; r < 2; ++r)
    ranks.push_back(fork_rank("between-" + std::to_string(::getpid()), r, 2, "2", [&] {
      death_at_store::arm(1, [r] {
        ::raise(SIGSTOP);
        ::usleep(r * 500'000);
      });
      auto comm = init();
      death_at_store::disarm();
      barrier(comm);
    }));
  int status = 0;
  for (pid_t const p : ranks) ::waitpid(p, &status, WUNTRACED);
  std::this_thread::sleep_for(3s);
  for (pid_t const p : ranks) ::kill(p, SIGCONT);
  CHECK(end_of_ranks(ranks, 20s, [](int, int ended) { return ended == 0; }) == "");
}

#else
TEST_CASE("stores can be counted only on x86-64" * doctest::skip()) {}
#endif
