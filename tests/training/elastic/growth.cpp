// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Elastic training in which new processes replace lost ranks: all end with the weights of a run without losses.
// labels: processes waits
#include <doctest/doctest.h>

#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdlib>
#include <string>
#include <sys/socket.h>
#include <utility>
#include <vector>

#include "support/environment.hpp"
#include "support/expect.hpp"
#include "support/forked_rank.hpp"
#include "training/elastic/toy_job.hpp"

using namespace tutti;
using namespace tutti::testing;
using namespace std::chrono_literals;

TEST_CASE("a new process replaces a lost rank, rank 0 too") {
  using enum toy_training::place;
  for (int const victim : {0, 1, 2}) {
    CAPTURE(victim);
    toy_job{.newcomers = {victim}, .kills = {{victim, 3, computed}}, .pause = 10ms}.check(3, 0);
  }
}

TEST_CASE("a job of two ranks loses one, runs alone, and grows again") {
  using enum toy_training::place;
  toy_job{.ranks = 2, .newcomers = {0}, .kills = {{0, 2, summed}}, .pause = 10ms}.check(2, 0);
}

TEST_CASE("several processes join, at once or one after another") {
  using enum toy_training::place;
  toy_job{.ranks = 4, .newcomers = {1, 3}, .kills = {{1, 3, begin}, {3, 3, end}}, .pause = 10ms}.check(4, 0);
  toy_job{.ranks = 4, .newcomers = {1, 3}, .kills = {{1, 2, begin}, {3, 9, end}}, .pause = 10ms}.check(4, 0);
}

TEST_CASE("a process that has joined is lost, too, and replaced") {
  using enum toy_training::place;
  // Process 3 replaces member 1, and process 4 waits until that is lost.
  toy_job job{.ranks = 3, .newcomers = {1}, .kills = {{1, 2, computed}, {3, 12, computed}}, .pause = 10ms};
  job.check(2, 1);
}

TEST_CASE("a process that dies when it has joined, before it has the state, disturbs nobody") {
  using enum toy_training::place;
  toy_job job{.newcomers = {1}, .kills = {{1, 3, computed}, {3, 99, begin}}, .pause = 10ms};
  job.prepares = [](int process, int) {
    if (process == 3) ::raise(SIGKILL);
  };
  job.check(2, 1);
}

TEST_CASE("ranks are lost while others join") {
  using enum toy_training::place;
  for (int const victim : {0, 2}) {
    CAPTURE(victim);
    // Member 1 is lost first; the victim is lost when process 4 has met the others.
    toy_job job{.ranks = 4, .newcomers = {1}, .kills = {{1, 3, computed}, {victim, 99, begin}}, .pause = 10ms};
    job.prepares = [victim](int process, int times) {
      if (process == victim && times == 3) ::raise(SIGKILL);
    };
    job.check(3, 1);
  }
}

TEST_CASE("a process that dies between the invitation and the meeting disturbs nobody, and the next one joins") {
  using enum toy_training::place;
  shared_with_forks<toy_end> ends(3);
  std::string const name = toy_job::new_name();
  toy_job const job{.kills = {{1, 3, computed}}, .pause = 20ms};
  std::vector<pid_t> processes;
  for (int r = 0; r < 3; ++r)
    processes.push_back(job.start_process(name, r, r, false, ends[static_cast<std::size_t>(r)]));
  processes.push_back(fork_rank(name, 1, 3, "60", [&] {
    detail::countdown until(60s);
    detail::open_door door(detail::name_of_loop(find_place().job, 0), 1);
    door.wait(until);
    ::raise(SIGKILL);
  }));
  std::string const wrong = end_of_ranks(
      processes, 100s, [](int p, int status) { return p == 1 || p == 3 ? was_killed(status) : status == 0; });
  CHECK_MESSAGE(wrong.empty(), wrong);
  for (std::size_t const r : {0u, 2u}) {
    CHECK(ends[r].hash == toy_training::hash_after(toy_steps));
    CHECK(ends[r].size == 2);
  }
}

TEST_CASE("a process that is to take other steps than the ranks it joins is refused, and disturbs nobody") {
  using enum toy_training::place;
  shared_with_forks<toy_end> ends(4);
  toy_job const job{.newcomers = {1}, .kills = {{1, 3, computed}}, .pause = 20ms, .more_steps = 5};
  std::string const wrong = job.run(ends.all(), [](int p, int status) {
    if (p == 1) return was_killed(status);
    return p == 3 ? WIFEXITED(status) && WEXITSTATUS(status) == 1 + static_cast<int>(error_code::bad_argument)
                  : status == 0;
  });
  CHECK_MESSAGE(wrong.empty(), wrong);
  for (std::size_t const r : {0u, 2u}) {
    CHECK(ends[r].hash == toy_training::hash_after(toy_steps));
    CHECK(ends[r].size == 2);
  }
}

TEST_CASE("a process that nobody asks to join gives up when its time has passed") {
  detail::open_door door("elastic-alone-" + std::to_string(::getpid()), 1);
  detail::countdown until(300ms);
  expect_error(error_of([&] { door.wait(until); }), error_code::timeout, "did not ask this process to join in time");
}

TEST_CASE("a process listens to the last rank that turns to it, because an earlier one may have stopped") {
  std::string const job = "elastic-two-" + std::to_string(::getpid());
  detail::open_door door(job, 2);
  auto const first = detail::find_newcomer(job, 2);
  REQUIRE(first);
  auto const second = detail::find_newcomer(job, 2);
  REQUIRE(second);
  detail::invitation sent;
  sent.layout = detail::segment_layout;
  sent.meeting = 17;
  sent.ranks = 3;
  REQUIRE(::send(second->connection.get(), &sent, sizeof sent, 0) == sizeof sent);
  detail::countdown until(60s);
  CHECK(door.wait(until).meeting == 17);
}

TEST_CASE("a process that no job can ask to join is refused") {
  for (auto const& [rank, text] :
       {std::pair{"", "no launcher has started this process"}, {"1", "is not a member of a job of 2"}}) {
    environment const variables{
        {"TUTTI_RANK", rank}, {"TUTTI_SIZE", *rank == 0 ? "" : "2"}, {detail::join_variable, "5"}};
    expect_error(error_of([] { training::elastic_loop(); }), error_code::bad_argument, text);
  }
}

TEST_CASE("only elastic_loop makes a rank of a process that replaces another") {
  std::vector<pid_t> const processes{fork_rank("elastic-init-" + std::to_string(::getpid()), 1, 2, "60", [] {
    ::setenv(detail::join_variable, "1", 1);
    expect_error(error_of([] { return init(); }), error_code::bad_argument, "this process replaces member 1");
  })};
  CHECK(end_of_ranks(processes, 60s, [](int, int status) { return status == 0; }).empty());
}
