// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A rank of elastic training that hangs is suspected, and then the others go on without it.
// labels: processes waits
// timeout: 300
#include <doctest/doctest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <string>
#include <thread>
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

namespace {

// Two ranks, of which rank 1 is late so many times, until rank 0 has had a timeout. Nobody waits long enough to exclude it.
std::string run_late_rank(int times, int right_status) {
  shared_with_forks<int> timeouts(1);
  std::atomic_ref<int> const seen(timeouts[0]);
  std::string const name = toy_job::new_name();
  std::vector<pid_t> processes;
  for (int r = 0; r < 2; ++r)
    processes.push_back(fork_rank(name, r, 2, "3", [&] {
      int late = 0;
      std::uint64_t sum = 0;
      training::elastic_loop loop({.exclude_after = 60s});
      loop.run(
          10, [&](auto&) { return std::vector{training::replicated("sum", sum)}; },
          [&](auto& comm, std::uint64_t number) {
            if (number == 5 && r == 1 && late < times)
              for (++late; seen < late;) std::this_thread::sleep_for(1ms);
            try {
              sum += all_reduce(comm, number);
            } catch (error const& e) {
              if (r == 0 && e.code() == error_code::timeout) ++seen;
              throw;
            }
          });
      if (sum != 2 * 10 * 11 / 2 || loop.comm().size() != 2) ::_exit(99);
    }));
  return end_of_ranks(processes, 100s, [&](int, int status) { return status == right_status; });
}

}  // namespace

TEST_CASE(
    "a rank that is back after a timeout, before it is excluded, goes on with the others, if it is not late for ever") {
  for (int const times : {1, 3}) {
    std::string const wrong = run_late_rank(times, 0);
    CHECK_MESSAGE(wrong.empty(), wrong);
  }
  std::string const wrong = run_late_rank(4, W_EXITCODE(1 + static_cast<int>(error_code::timeout), 0));
  CHECK_MESSAGE(wrong.empty(), wrong);
}

TEST_CASE("a rank that is back while others are about to exclude it is excluded or goes on, and all ranks do alike") {
  for (auto const delay : {500ms, 2000ms}) {
    CAPTURE(delay.count());
    shared_with_forks<toy_end> ends(3);
    shared_with_forks<int> timeouts(1);
    std::atomic_ref<int> const seen(timeouts[0]);
    toy_job job{.timeout = "4"};
    job.options = [](int) { return training::elastic_options{.exclude_after = 1500ms}; };
    job.fails = [&](int process, error const& e) {
      if (process == 0 && e.code() == error_code::timeout) ++seen;
    };
    job.stops = {1, 5, toy_training::place::computed};
    auto const processes = job.start(ends.all());
    auto const most = detail::deadline::after(60s);
    while (seen == 0 && !most.passed()) std::this_thread::sleep_for(1ms);
    std::this_thread::sleep_for(delay);
    ::kill(processes[1], SIGCONT);
    bool excluded = false;
    std::string const wrong = end_of_ranks(processes, 100s, [&](int p, int status) {
      excluded |= p == 1 && WIFEXITED(status) && WEXITSTATUS(status) == 1 + static_cast<int>(error_code::excluded);
      return status == 0 || (p == 1 && excluded);
    });
    CHECK_MESSAGE(wrong.empty(), wrong);
    for (std::size_t p = 0; p < 3; ++p) {
      if (p == 1 && excluded) continue;
      CHECK(ends[p].hash == toy_training::hash_after(toy_steps));
      CHECK(ends[p].size == (excluded ? 2 : 3));
    }
  }
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
