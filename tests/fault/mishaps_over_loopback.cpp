// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Messages between threads that are late, lost, duplicated, truncated, or of another call.
// labels: threads twin
// timeout: 300
#include <doctest/doctest.h>

#include <exception>
#include <memory>
#include <thread>

#include "fault/mishaps.hpp"
#include "support/sanitized.hpp"

using namespace tutti;
using namespace tutti::detail;
using namespace tutti::testing;

static_assert(maps_memory<faulty<loopback>> && shares_packets<faulty<loopback>> &&
              needs_sender_progress<faulty<loopback>>);

namespace {

// Runs one case, and returns the complaints of its ranks.
std::string run_case(mishap_case const& k) {
  auto const shared = std::make_shared<loopback::hub>(mishap_ranks, max_tracks);
  std::string said[mishap_ranks];
  {
    std::vector<std::jthread> threads;
    for (int r = 0; r < mishap_ranks; ++r)
      threads.emplace_back([&, r] {
        misfortune const mine = r == unlucky ? k.fortune : misfortune{};
        communicator<faulty<loopback>> comm(std::make_unique<faulty<loopback>>(mine, shared, r));
        try {
          check_mishap(comm, k);
        } catch (std::exception const& e) {
          said[r] = e.what();
        }
        comm.agree();  // nobody leaves before all have checked
      });
  }
  std::string out;
  for (std::string const& s : said) out += s;
  return out;
}

void check_all(std::vector<mishap> const& mishaps, std::vector<protocol> const& protocols) {
  auto const cases = all_cases(mishaps, protocols);
  for (std::size_t i = 0; i < cases.size(); i += sanitized ? 15 : 3) CHECK(run_case(cases[i]) == "");
}

// Messages between two ranks.
void check_messages(std::vector<mishap> const& mishaps) {
  for (misfortune const& f : message_fortunes(mishaps)) {
    auto const shared = std::make_shared<loopback::hub>(mishap_ranks, all_tracks);
    CHECK_NOTHROW(run_threads(mishap_ranks, [&](auto& sound) {
      misfortune const mine = sound.rank() == unlucky || f.what == mishap::delay ? f : misfortune{};
      communicator<faulty<loopback>> comm(std::make_unique<faulty<loopback>>(mine, shared, sound.rank()));
      check_message_mishap(sound, comm, f);
    }));
  }
}

}  // namespace

TEST_CASE("messages that are late, in another order between channels, change nothing over loopback") {
  check_all({mishap::none, mishap::delay}, {protocol::staged, protocol::direct});
}

TEST_CASE("messages that are cut, of another call, or sent twice are errors of all over loopback") {
  check_all({mishap::cut, mishap::mistake, mishap::repeat}, {protocol::staged, protocol::direct});
}

TEST_CASE("messages that are lost, and a rank that says nothing any more, are errors of all over loopback") {
  check_all({mishap::lose, mishap::mute}, {protocol::staged});
}

TEST_CASE("messages between two ranks that are late arrive, and others are errors of all over loopback") {
  check_messages(
      {mishap::none, mishap::delay, mishap::cut, mishap::mistake, mishap::repeat, mishap::lose, mishap::mute});
}
