// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A rank dies just before grow(), or before any of its stores to shared memory in it, while a process waits to join: the survivors name
// it, shrink, and grow by that process. If it is the process that dies, the ranks continue without it. By default a sample of the stores;
// TUTTI_TEST_DEATHS=1000000 makes it all of them.
// labels: processes alone waits native
// timeout: 200
#include "support/death_at_store.hpp"

#include <doctest/doctest.h>

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "support/expect.hpp"
#include "support/forked_rank.hpp"
#include "tutti/grow.hpp"
#include "tutti/tutti.hpp"

using namespace tutti;
using namespace tutti::testing;
using namespace std::chrono_literals;

namespace {

constexpr int ranks = 3, newcomer = 3;  // processes 0 to 2 are ranks from the start

// The process that dies, before this store in grow() or join_request::wait(). 0: it dies before it calls them.
struct death_in_grow {
  int process;
  std::uint64_t store;
};
constexpr std::uint64_t only_counts = ~std::uint64_t{};

struct count_of_stores {
  std::atomic<std::uint64_t> stores;
};

// What a process does around the call in which it may die.
class doom {
 public:
  doom(death_in_grow const& d, int process, count_of_stores& log) : applies_(d.process == process), d_(d), log_(log) {}
  void begin() const {
    if (!applies_) return;
    if (d_.store == 0) ::raise(SIGKILL);
#if defined(TUTTI_TEST_KILLS_AT_STORES)
    death_at_store::arm(d_.store == only_counts ? 0 : d_.store);
#endif
  }
  void end() const {
    if (!applies_) return;
#if defined(TUTTI_TEST_KILLS_AT_STORES)
    log_.stores = death_at_store::disarm();
#endif
    if (d_.store != only_counts) ::raise(SIGKILL);  // fewer stores than in the run that counted them
  }

 private:
  bool applies_;
  death_in_grow d_;
  count_of_stores& log_;
};

void expect_sum(communicator<shm>& comm, int size) {
  expect(all_reduce(comm, 1, sum{}) == size, "another number of ranks");
  comm.agree();  // nobody leaves while others still read
}

void be_newcomer(std::string const& name, doom const& may_die, int size) {
  join_request request(name, 7);
  while (true) {
    may_die.begin();
    auto joined = request.wait(60s);
    may_die.end();
    try {
      return expect_sum(joined.comm, size);
    } catch (error const&) {  // the ranks have kept theirs, or have lost one since
    }
  }
}

void be_old_rank(std::string const& name, death_in_grow const& death, doom const& may_die, int size) {
  auto comm = init();
  comm.agree();
  while (true) {
    newcomers found;
    while (comm.is_main() && (found = find_newcomers(name, std::vector{7})).size() == 0)
      std::this_thread::sleep_for(1ms);
    try {
      may_die.begin();
      grown larger = grow(comm, name, found, {.within = 60s});
      may_die.end();
      if (larger.intact()) {
        expect(larger.comm || death.process == newcomer, "not grown: " + larger.why);
        if (larger.comm) comm = *std::move(larger.comm);
        return expect_sum(comm, size);
      }
      expect(larger.vote.gone == std::vector{death.process}, "another rank is lost; " + larger.why);
      comm = comm.shrink();
    } catch (error const& e) {
      expect(e.code() == error_code::rank_lost && e.peer() == death.process, e.what());
      comm.agree(0);
      comm = comm.shrink();
      if (death.process == newcomer) return expect_sum(comm, size);
    }
  }
}

std::string run_with_death(death_in_grow const& death, count_of_stores& log) {
  static int runs = 0;
  std::string const job = "grow-losses-" + std::to_string(::getpid()) + "-" + std::to_string(++runs);
  bool const dies = death.store != only_counts;
  int const size = dies ? ranks : ranks + 1;
  std::vector<pid_t> processes;
  for (int r = 0; r < ranks; ++r)
    processes.push_back(fork_rank(job, r, ranks, "60", [&] { be_old_rank(job, death, doom(death, r, log), size); }));
  processes.push_back(
      fork_rank(job + "-newcomer", 0, 1, "60", [&] { be_newcomer(job, doom(death, newcomer, log), size); }));
  return end_of_ranks(processes, 40s,
                      [&](int p, int status) { return dies && p == death.process ? was_killed(status) : status == 0; });
}

}  // namespace

TEST_CASE("a rank dies just before grow while a process waits to join") {
  shared_with_forks<count_of_stores> const log;
  for (int const victim : {0, 1, 2}) {
    CAPTURE(victim);
    CHECK(run_with_death({victim, 0}, log[0]) == "");
  }
}

#if defined(TUTTI_TEST_KILLS_AT_STORES)
TEST_CASE("a rank or the process that joins dies before any of its stores in grow") {
  shared_with_forks<count_of_stores> const log;
  char const* const asked = std::getenv("TUTTI_TEST_DEATHS");
  for (int const victim : {0, 1, 2, newcomer}) {
    CAPTURE(victim);
    CHECK(run_with_death({victim, only_counts}, log[0]) == "");
    std::uint64_t const stores = log[0].stores,
                        deaths =
                            std::min(stores, std::uint64_t{asked != nullptr ? std::strtoul(asked, nullptr, 10) : 6});
    REQUIRE(stores > 0);
    for (std::uint64_t i = 0; i < deaths; ++i) {
      std::uint64_t const at = i * stores / deaths + 1;
      CAPTURE(at);
      CHECK(run_with_death({victim, at}, log[0]) == "");
    }
    std::printf("process %d: %llu stores, %llu deaths\n", victim, static_cast<unsigned long long>(stores),
                static_cast<unsigned long long>(deaths));
  }
}
#endif
