// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A rank whose control group limits its memory: allocate refuses what the group cannot have, and a rank that the system
// kills because it touches more is named by the others, which go on.
// labels: processes waits alone
#include <doctest/doctest.h>

#include <unistd.h>

#include <chrono>
#include <cstddef>
#include <new>
#include <stdexcept>
#include <string>
#include <vector>

#include "support/expect.hpp"
#include "support/forked_rank.hpp"
#include "support/memory_group.hpp"
#include "tutti/tutti.hpp"

using namespace tutti;
using namespace tutti::testing;
using namespace std::chrono_literals;

namespace {

constexpr std::size_t limit = std::size_t{64} << 20;

// Runs two ranks, of which rank 1 is in a group of its own.
template <class Right, class Body>
void check_with_limit(char const* job, Right const& right, Body const& body) {
  memory_group group(limit);
  if (!group.refusal().empty()) {
    MESSAGE("not tested, because no memory can be limited here: ", group.refusal());
    return;
  }
  std::vector<pid_t> ranks;
  for (int r = 0; r < 2; ++r)
    ranks.push_back(fork_rank(job + std::to_string(::getpid()), r, 2, "60", [&] {
      auto comm = init();
      if (r == 1) expect(group.enter(), group.refusal());
      barrier(comm);
      body(comm);
    }));
  CHECK(end_of_ranks(ranks, 50s, right) == "");
}

}  // namespace

TEST_CASE("allocate refuses what a control group cannot have") {
  check_with_limit(
      "group-refuses-", [](int, int status) { return status == 0; },
      [](auto& comm) {
        bool refused = false;
        try {
          static_cast<void>(comm.template allocate<char>(2 * limit));
        } catch (std::bad_alloc const&) {
          refused = true;
        }
        expect(refused == (comm.rank() == 1), "only the rank with a limit is refused");
        auto some = comm.template allocate<char>(limit / 4);
        some[limit / 4 - 1] = 1;
        barrier(comm);
      });
}

TEST_CASE("a rank that is killed because it has too much memory is named by the others") {
  check_with_limit(
      "group-kills-", [](int rank, int status) { return rank == 1 ? was_killed(status) : status == 0; },
      [](auto& comm) {
        if (comm.rank() == 1) {
          take_memory(2 * limit);
          throw std::runtime_error("the system has not killed this process");
        }
        error const e = error_of([&] { barrier(comm); });
        expect(e.code() == error_code::rank_lost && e.peer() == 1, e.what());
        expect(comm.shrink().size() == 1, "the other rank goes on");
      });
}
