// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A job that is stopped as a whole and resumed goes on: the time in which a waiting rank could not run does not count.
// labels: processes waits
#include <doctest/doctest.h>

#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "support/expect.hpp"
#include "support/forked_rank.hpp"
#include "tutti/tutti.hpp"

using namespace tutti;
using namespace std::chrono_literals;

namespace {

// Sleeps for this long without the time in which the process is stopped, unlike sleep_for.
void compute_for(std::chrono::milliseconds time) {
  for (auto slept = 0ms; slept < time; slept += 10ms) std::this_thread::sleep_for(10ms);
}

// The ranks of a job in processes of their own, of which rank 1 is late by `delay`. Returns how they ended, after they
// were all stopped for `stop`. They wait for each other for 2 s.
std::vector<int> run_stopped(char const* name, std::chrono::milliseconds stop, void (*rank_of)(int rank)) {
  std::vector<pid_t> ranks;
  for (int r = 0; r < 2; ++r)
    ranks.push_back(testing::fork_rank(name + std::to_string(::getpid()), r, 2, "2", [&] { rank_of(r); }));
  std::this_thread::sleep_for(500ms);
  for (pid_t const p : ranks) ::kill(p, SIGSTOP);
  std::this_thread::sleep_for(stop);
  for (pid_t const p : ranks) ::kill(p, SIGCONT);
  std::vector<int> out;
  for (pid_t const p : ranks) {
    int status = -1;
    ::waitpid(p, &status, 0);
    out.push_back(WIFEXITED(status) ? WEXITSTATUS(status) : status);
  }
  return out;
}

void late_to_a_call(int rank) {
  auto comm = init();
  std::vector<int> sum(10, 1);
  if (rank == 1) compute_for(1500ms);
  all_reduce(comm, sum);
  testing::expect(sum[9] == 2, "the sum is wrong");
}

void late_to_a_message(int rank) {
  auto comm = init();
  std::vector<int> data(10, rank);
  if (rank == 0) {
    irecv(comm, data, 1).wait();
    testing::expect(data[9] == 1, "the message is wrong");
  } else {
    compute_for(1500ms);
    send(comm, data, 0);
  }
}

void late_to_init(int rank) {
  if (rank == 1) compute_for(1500ms);
  auto comm = init();
  barrier(comm);
}

}  // namespace

TEST_CASE("a job that was stopped longer than its ranks wait for each other goes on") {
  CHECK(run_stopped("stopped-call-", 4000ms, late_to_a_call) == std::vector{0, 0});
  CHECK(run_stopped("stopped-message-", 4000ms, late_to_a_message) == std::vector{0, 0});
  CHECK(run_stopped("stopped-init-", 4000ms, late_to_init) == std::vector{0, 0});
}
