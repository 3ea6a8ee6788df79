// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A rank of elastic training that hangs is suspected, and then the others go on without it.
// labels: processes waits
#include <doctest/doctest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <vector>

#include "support/forked_rank.hpp"
#include "training/elastic/toy_job.hpp"

using namespace tutti;
using namespace tutti::testing;
using namespace std::chrono_literals;

TEST_CASE("a rank that is stopped is suspected, then excluded, and cannot come back") {
  using training::member_state;
  shared_with_forks<toy_end> ends(3);
  shared_with_forks<int> seen(4);  // how often a rank has seen member 1 become each state
  toy_job job{.timeout = "4"};
  job.options = [&](int process) {
    return training::elastic_options{
        .suspect_after = 500ms, .exclude_after = 1500ms, .report = [&seen, process](auto const& t) {
          if (process == 0 && t.who.number == 1) seen[static_cast<std::size_t>(t.who.state)] += 1;
        }};
  };
  job.stops = {1, 5, toy_training::place::computed};
  auto const processes = job.start(ends.all());
  std::array const others{processes[0], processes[2]};
  std::string const wrong = end_of_ranks(others, 100s, [](int, int status) { return status == 0; });
  CHECK_MESSAGE(wrong.empty(), wrong);
  ::kill(processes[1], SIGCONT);
  std::string const late = end_of_ranks(std::array{processes[1]}, 100s, [](int, int status) {
    return WIFEXITED(status) && WEXITSTATUS(status) == 1 + static_cast<int>(error_code::excluded);
  });
  CHECK_MESSAGE(late.empty(), late);
  for (std::size_t const r : {0u, 2u}) {
    CHECK(ends[r].hash == toy_training::hash_after(toy_steps));
    CHECK(ends[r].size == 2);
  }
  CHECK(seen[static_cast<std::size_t>(member_state::suspected)] == 1);
  CHECK(seen[static_cast<std::size_t>(member_state::failed)] == 1);
  CHECK(seen[static_cast<std::size_t>(member_state::healthy)] == 0);
}

TEST_CASE("a rank that is late is suspected, and healthy again when it arrives") {
  using training::member_state;
  shared_with_forks<toy_end> ends(2);
  shared_with_forks<int> seen(4);
  toy_job job{.ranks = 2};
  job.options = [&](int process) {
    return training::elastic_options{.suspect_after = 100ms, .report = [&seen, process](auto const& t) {
                                       if (process == 0) seen[static_cast<std::size_t>(t.who.state)] += 1;
                                     }};
  };
  job.late = 1;
  job.steps = 10;
  std::string const wrong = job.run(ends.all(), [](int, int status) { return status == 0; });
  CHECK_MESSAGE(wrong.empty(), wrong);
  CHECK(seen[static_cast<std::size_t>(member_state::suspected)] >= 1);
  CHECK(seen[static_cast<std::size_t>(member_state::healthy)] >= 1);
  CHECK(seen[static_cast<std::size_t>(member_state::failed)] == 0);
}
