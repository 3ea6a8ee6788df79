// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Ranks are killed at random moments of a job, whatever they are doing; the survivors shrink and finish it. The number
// of kills is TUTTI_TEST_KILLS, or 200.
// labels: processes waits
// timeout: 400
#include <doctest/doctest.h>

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "fault/losses.hpp"
#include "support/expect.hpp"
#include "support/held_by_process.hpp"
#include "support/sanitized.hpp"
#include "tutti/tutti.hpp"

using namespace tutti;
using namespace tutti::detail;
using namespace tutti::testing;

namespace {

// KiB of memory that belongs to this process only: segments are counted above.
std::size_t anonymous_bytes() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with("RssAnon:")) return std::stoul(line.substr(8)) * 1024;
  return 0;
}
constexpr std::size_t some_growth = std::size_t{sanitized ? 64 : 4} << 20;

void be_rank(communicator<shm>& first, script const& s) {
  auto const files = open_files();
  std::size_t const memory = anonymous_bytes();
  communicator<shm> const rest = finish_with_losses(first, s);
  expect(memory > 0 && anonymous_bytes() < memory + some_growth, "memory of a survivor has grown");
  expect(segments() == (rest.size() > 1 ? 2 : 1), "there are more segments than communicators");
  expect(open_files() <= files, "files have been left open");
}

}  // namespace

TEST_CASE("whenever ranks are killed, the others learn who, shrink and finish the job") {
  char const* const wanted = std::getenv("TUTTI_TEST_KILLS");
  int const kills = wanted != nullptr ? std::atoi(wanted) : sanitized ? 10 : 200;
  std::mt19937 random(20261122);
  std::array<int, habits.size()> counted{};
  auto const files = open_files();
  std::size_t memory = 0;
  int killed = 0;
  for (int run = 0; killed < kills; ++run) {
    script const s = any_script(random, 3 + static_cast<int>(random() % 4));
    std::string said;
    try {
      run_local(s.ranks, [&](auto& comm) { be_rank(comm, s); });
    } catch (error const& e) {
      said = e.what();
    }
    CAPTURE(run);
    CAPTURE(std::string(habits[static_cast<std::size_t>(s.what)]));
    CAPTURE(said);
    for (int r = 0; r < s.ranks; ++r) {
      CAPTURE(r);
      bool const dead = said.find("rank " + std::to_string(r) + " was ended by signal 9") != said.npos;
      CHECK(dead == (std::ranges::count(s.victims, r) > 0));
      killed += dead ? 1 : 0;
    }
    REQUIRE(said.find("exit code") == said.npos);
    ++counted[static_cast<std::size_t>(s.what)];
    if (run == 10) memory = anonymous_bytes();
  }
  for (std::size_t h = 0; h < habits.size(); ++h) std::printf("%d runs with a kill %s\n", counted[h], habits[h]);
  std::printf("%d ranks killed, all others finished their job\n", killed);
  CHECK(open_files() == files);
  CHECK(segments() == 0);
  CHECK(anonymous_bytes() < memory + some_growth);
}

TEST_CASE("survivors may go on for longer than ranks that have failed") {
  std::string said;
  try {
    run_local(3, [](communicator<shm>& comm) {
      static_cast<void>(error_of([&] {
        barrier(comm);  // until all ranks have left init()
        if (comm.rank() == 1) ::raise(SIGKILL);
        barrier(comm);
      }));
      comm = comm.shrink();
      std::this_thread::sleep_for(std::chrono::seconds(11));
      barrier(comm);
    });
  } catch (error const& e) {
    said = e.happened();
  }
  CHECK(said == "rank 1 was ended by signal 9 (Killed)");
}

TEST_CASE("who shrinks again and again holds no more than one communicator") {
  CHECK_NOTHROW(run_local(4, [](communicator<shm>& first) {
    communicator<shm> comm = first.subgroup({0, 1, 2, 3});
    std::size_t memory = 0;
    auto const files = open_files();
    for (int round = 0; round < 200; ++round) {
      if (round == 50) memory = anonymous_bytes();
      if (comm.rank() == round % 4) comm.revoke("again");
      std::vector<float> data(1000);
      expect_error(error_of([&] {
                     while (true) all_reduce(comm, data);
                   }),
                   error_code::revoked, "again");
      comm = comm.shrink();
    }
    expect(segments() == 2 && open_files() == files, "a communicator has not been closed");
    // A leak of 14 KiB for each would be 2 MiB.
    expect(anonymous_bytes() < memory + (std::size_t{sanitized ? 64 : 1} << 20), "memory has grown");
  }));
}
