// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Messages between processes that are late, lost, sent twice, cut, or of another call; and ranks killed at a message.
// labels: processes
// timeout: 300
#include <doctest/doctest.h>

#include <concepts>
#include <memory>
#include <unistd.h>

#include "fault/mishaps.hpp"
#include "support/sanitized.hpp"
#include "tutti/transport/shared_memory/rendezvous.hpp"

using namespace tutti;
using namespace tutti::detail;
using namespace tutti::testing;

static_assert(maps_memory<faulty<shm>> && shares_packets<faulty<shm>> && needs_sender_progress<faulty<shm>>);

namespace {

// run(outer, comm, case) in each rank, for these cases one after another, in the same processes.
template <class Case, class Run>
void run_cases(std::vector<Case> const& cases, std::size_t stride, Run const& run) {
  pid_t const parent = ::getpid();
  run_local(mishap_ranks, [&](auto& outer) {
    for (std::size_t i = 0; i < cases.size(); i += stride) {
      int const rank = outer.rank();
      countdown until(std::chrono::seconds(20));
      rendezvous meeting(join({"mishaps-", parent, "-", i}), rank, mishap_ranks, until);
      descriptor const file = meeting.meet([] { return shm::create(mishap_ranks, all_tracks); });
      misfortune fortune;
      if constexpr (std::same_as<Case, misfortune>) fortune = cases[i];
      else fortune = cases[i].fortune;
      misfortune const mine = rank == unlucky ? fortune : misfortune{};
      communicator<faulty<shm>> comm(std::make_unique<faulty<shm>>(mine, file, rank, mishap_ranks, all_tracks, until));
      run(outer, comm, cases[i]);
    }
  });
}
void run_cases(std::vector<mishap_case> const& cases) {
  run_cases(cases, sanitized ? 5 : 1, [](auto&, auto& comm, mishap_case const& k) {
    check_mishap(comm, k);
    comm.agree();  // nobody leaves before all have looked
  });
}
void run_messages(std::vector<misfortune> const& fortunes) {
  run_cases(fortunes, 1, [](auto& outer, auto& comm, misfortune const& f) { check_message_mishap(outer, comm, f); });
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
  auto const check = [](auto const& run) {
    std::string said;
    try {
      run();
    } catch (error const& e) {
      said = e.what();
    }
    CAPTURE(said);
    CHECK(said.find("exit code") == said.npos);
  };
  auto const cases = all_cases({mishap::kill}, {protocol::staged});
  for (std::size_t i = 0; i < cases.size(); i += sanitized ? 5 : 1) check([&] { run_cases({cases[i]}); });
  for (misfortune const& f : message_fortunes({mishap::kill})) check([&] { run_messages({f}); });
}

TEST_CASE("messages between two ranks that are late arrive, and others are errors of all over shm") {
  CHECK_NOTHROW(run_messages(message_fortunes(
      {mishap::none, mishap::delay, mishap::cut, mishap::mistake, mishap::repeat, mishap::lose, mishap::mute})));
}
