// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Messages between processes that are late, lost, sent twice, cut, or of another call; and ranks killed at a message.
// labels: processes
// timeout: 300
#include <doctest/doctest.h>

#include <memory>
#include <unistd.h>

#include "collective/mishaps.hpp"
#include "support/sanitized.hpp"

using namespace tutti;
using namespace tutti::testing;

static_assert(maps_memory<faulty<shm>> && shows_packets<faulty<shm>> && sends_later<faulty<shm>>);

namespace {

constexpr int ranks = 4;

// These cases one after another, in the same processes.
void run_cases(std::vector<mishap_case> const& cases) {
  pid_t const parent = ::getpid();
  run_local(ranks, [&](auto& outer) {
    for (std::size_t i = 0; i < cases.size(); i += sanitized ? 5 : 1) {
      int const rank = outer.rank();
      auto const until = deadline::after(std::chrono::seconds(20));
      rendezvous meeting(join({"mishaps-", parent, "-", i}), rank, ranks, until);
      descriptor const file = meeting.meet([] { return shm::create(ranks, max_tracks); });
      misfortune const mine = rank == unlucky ? cases[i].fortune : misfortune{};
      communicator<faulty<shm>> comm(std::make_unique<faulty<shm>>(mine, file, rank, ranks, max_tracks, until));
      check_mishap(comm, cases[i]);
      comm.agree();  // nobody leaves before all have looked
    }
  });
}

}  // namespace

TEST_CASE("messages that are late, in another order between channels, change nothing over shm") {
  CHECK_NOTHROW(run_cases(all_cases({mishap::none, mishap::delay}, {protocol::staged, protocol::direct})));
}

TEST_CASE("messages that are cut, of another call, or sent twice are errors of all over shm") {
  CHECK_NOTHROW(run_cases(all_cases({mishap::cut, mishap::mistake, mishap::repeat}, {protocol::staged})));
}

TEST_CASE("messages that are lost, and a rank that says nothing any more, are errors of all over shm") {
  CHECK_NOTHROW(run_cases(all_cases({mishap::lose, mishap::mute}, {protocol::staged})));
}

TEST_CASE("of a rank that is killed at a message all others know, over shm") {
  auto const cases = all_cases({mishap::kill}, {protocol::staged});
  for (std::size_t i = 0; i < cases.size(); i += sanitized ? 5 : 1) {
    std::string said;
    try {
      run_cases({cases[i]});
    } catch (error const& e) {
      said = e.what();
    }
    CAPTURE(said);
    CHECK(said.find("exit code") == said.npos);
  }
}
