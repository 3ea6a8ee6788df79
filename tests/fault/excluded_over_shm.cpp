// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Ranks that hang are excluded over shm: one that computes for ever, one that is stopped while operations are in flight, and
// one that is stopped before a store of its own shrink. TUTTI_TEST_STOPS=1000000 stops it before each of them.
// labels: processes alone waits optimised native
// timeout: 200
#include "support/death_at_store.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include "fault/excluded.hpp"
#include "support/forked_rank.hpp"

using namespace tutti;
using namespace tutti::detail;
using namespace tutti::testing;
using namespace std::chrono_literals;

namespace {

constexpr int job_ranks = 3, victim = 1;

enum stages { starting, working, gone_on, victim_told };

// Messages and calls that read and write the memory of all ranks, until one throws.
error work_until_error(communicator<>& comm) {
  return error_of([&] {
    std::vector<int> all(200'000, 1), give(100'000, comm.rank()), got(give.size());
    auto shared = comm.allocate<int>(100'000);
    int const right = (comm.rank() + 1) % comm.size(), left = (comm.rank() + comm.size() - 1) % comm.size();
    while (true) {
      work sum = all_reduce(async(comm), all), more = all_reduce(async(comm), shared);
      receive_work in = irecv(comm, got, left, 1);
      work out = isend(comm, give, right, 1);
      sum.wait(), more.wait(), in.wait(), out.wait();
    }
  });
}

void be_rank_in_flight(std::atomic<int>& stage) {
  auto comm = init();
  comm.agree();
  if (comm.rank() == victim) stage = working;
  error const e = work_until_error(comm);
  if (comm.rank() == victim) {
    expect_error(e, error_code::excluded, "and the survivors (0, 2) continue without it");
    expect_excluded(comm);
    stage = victim_told;
    return;
  }
  expect(e.code() == error_code::timeout && e.peer() == victim, e.what());
  auto rest = comm.shrink({.exclude_after = patience_with_hung_ranks});
  expect_survivors_sum(rest, {0, 2});
  if (rest.rank() == 0) stage = gone_on;
  for (auto const until = deadline::after(20s);;) {
    expect(!until.passed(), "the victim did not hear of its exclusion");
    bool const told = stage == victim_told;
    expect_survivors_sum(rest, {0, 2});
    if (all_reduce(rest, told ? 1 : 0) == 2) return;
  }
}

}  // namespace

TEST_CASE("a process that hangs is excluded, and told so when it runs again") {
  for (int const ranks : {2, 3}) {
    shared_with_forks<std::atomic<int>> const stage;
    CHECK_NOTHROW(run_local(ranks, [&](auto& comm) { check_exclusion(comm, stage[0]); }));
  }
}

TEST_CASE("a rank that is stopped while operations are in flight is excluded, and harms nobody later") {
  std::string const job = "excluded-" + std::to_string(::getpid());
  shared_with_forks<std::atomic<int>> const stage;
  std::vector<pid_t> ranks;
  for (int r = 0; r < job_ranks; ++r)
    ranks.push_back(fork_rank(job, r, job_ranks, "3", [&] { be_rank_in_flight(stage[0]); }));
  auto const until = deadline::after(30s);
  auto const await = [&](int s) {
    while (stage[0] < s && !until.passed()) std::this_thread::sleep_for(1ms);
  };
  await(working);
  std::this_thread::sleep_for(50ms);
  ::kill(ranks[victim], SIGSTOP);
  await(gone_on);
  ::kill(ranks[victim], SIGCONT);
  CHECK(end_of_ranks(ranks, 30s, [](int, int status) { return status == 0; }) == "");
}

#if defined(TUTTI_TEST_KILLS_AT_STORES)

namespace {

struct log_of_stop {
  std::atomic<std::uint64_t> stores;  // of the victim, in shrink
  std::atomic<int> returned;          // survivors from shrink, and the victim once it knows the outcome
};

// The victim stops before store `at` of its shrink, or only counts if that is 0. Either the others exclude it, or they had
// decided before that it takes part.
void be_rank_in_shrink(std::uint64_t at, log_of_stop& log) {
  auto comm = init();
  comm.agree();
  bool const stops = comm.rank() == victim;
  if (stops) death_at_store::arm(at, [] { ::raise(SIGSTOP); });
  std::optional<communicator<>> rest;
  error const e = error_of([&] { rest.emplace(comm.shrink({.exclude_after = patience_with_hung_ranks})); });
  if (stops) log.stores = death_at_store::disarm();
  ++log.returned;
  if (!rest) {
    expect(stops, e.what());
    return expect_excluded(comm);
  }
  bool const all = rest->size() == job_ranks;
  std::vector<int> const survivors = all ? std::vector{0, 1, 2} : std::vector{0, 2};
  expect_survivors_sum(*rest, survivors);
  while (log.returned < job_ranks) std::this_thread::sleep_for(1ms);
  expect_survivors_sum(*rest, survivors);
}

bool has_ended(pid_t process) {
  siginfo_t info{};
  return ::waitid(P_PID, static_cast<id_t>(process), &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid != 0;
}

std::string run_with_stop(std::uint64_t at, log_of_stop& log) {
  static int runs = 0;
  std::string const job = "stop-" + std::to_string(::getpid()) + "-" + std::to_string(++runs);
  log.returned = 0;
  std::vector<pid_t> ranks;
  for (int r = 0; r < job_ranks; ++r)
    ranks.push_back(fork_rank(job, r, job_ranks, "20", [&] { be_rank_in_shrink(at, log); }));
  auto const until = deadline::after(30s);
  while (log.returned < job_ranks - 1 && !until.passed()) std::this_thread::sleep_for(1ms);
  for (; !has_ended(ranks[victim]) && !until.passed(); std::this_thread::sleep_for(1ms))
    ::kill(ranks[victim], SIGCONT);  // again and again, because it may stop only now
  return end_of_ranks(ranks, 30s, [](int, int status) { return status == 0; });
}

}  // namespace

TEST_CASE("whatever store of shrink a rank stops before, it takes part or is excluded") {
  shared_with_forks<log_of_stop> const log;
  CHECK(run_with_stop(0, log[0]) == "");
  char const* const asked = std::getenv("TUTTI_TEST_STOPS");
  std::uint64_t const stores = log[0].stores,
                      runs = std::min(stores, std::uint64_t{asked != nullptr ? std::strtoul(asked, nullptr, 10) : 4});
  REQUIRE(stores > 0);
  for (std::uint64_t i = 0; i < runs; ++i) {
    std::uint64_t const at = i * stores / runs + 1;
    CAPTURE(at);
    CHECK(run_with_stop(at, log[0]) == "");
  }
}

#endif
