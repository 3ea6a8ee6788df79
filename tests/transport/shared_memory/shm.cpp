// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// shm: joining, and peers that end before all have joined. tests/collective tests collectives over it.
// labels: processes optimised
#include <doctest/doctest.h>

#include <sched.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "support/system_calls.hpp"
#include "tutti/transport/shared_memory/rendezvous.hpp"
#include "tutti/transport/shared_memory/shm.hpp"

using namespace tutti;
using namespace tutti::detail;
using namespace std::chrono_literals;

namespace {

// Runs f in a child process.
template <class F>
pid_t in_a_process(F&& f) {
  pid_t const process = ::fork();
  if (process == 0) {
    try {
      f();
      ::_exit(0);
    } catch (...) {
      ::_exit(1);
    }
  }
  return process;
}

// A process that has joined as a rank while others are missing.
pid_t joined(descriptor const& file, int rank, int ranks) {
  pid_t const out = in_a_process([&] { shm const me(file, rank, ranks, 1, countdown(60s)); });
  auto const front = segment_mapping::front(file, ranks, 1);
  while (front.memory().rank(rank).status.load() != presence::joined) std::this_thread::sleep_for(1ms);
  return out;
}
void await_end(pid_t process) { ::waitpid(process, nullptr, 0); }

// The error of joining as rank 0, and the seconds until it is thrown.
struct refusal {
  error_code code{};
  int peer = -2;
  std::string said;
  double seconds = 0;
};

refusal join(descriptor const& file, int ranks, deadline::clock::duration time) {
  auto const began = deadline::clock::now();
  refusal out;
  try {
    shm const me(file, 0, ranks, 1, countdown(time));
  } catch (error const& e) {
    out = {e.code(), e.peer(), e.what(), 0};
  }
  out.seconds = std::chrono::duration<double>(deadline::clock::now() - began).count();
  return out;
}

}  // namespace

TEST_CASE("a rank that ends while others are missing is named immediately") {
  descriptor const file = shm::create(3, 1);
  bool reaped = false;
  SUBCASE("and is still a zombie") {}
  SUBCASE("and is gone without a trace") { reaped = true; }
  pid_t const victim = joined(file, 1, 3);
  ::kill(victim, SIGKILL);
  if (reaped) await_end(victim);
  refusal const r = join(file, 3, 20s);
  CHECK(r.code == error_code::rank_lost);
  CHECK(r.peer == 1);
  CHECK(r.said.find("rank 1 (process " + std::to_string(victim) + ") ended before all ranks had joined") !=
        r.said.npos);
  if (!reaped) await_end(victim);
}

TEST_CASE("a rank that ended between its joining and ours is named, even if it left no trace") {
  descriptor const file = shm::create(2, 1);
  pid_t const victim = joined(file, 1, 2);
  ::kill(victim, SIGKILL);
  await_end(victim);
  refusal const r = join(file, 2, 20s);
  CHECK(r.code == error_code::rank_lost);
  CHECK(r.peer == 1);
}

// The last rank lets the others nap, so those that die wake up at the same time as the one that has yet to join.
TEST_CASE("ranks that end as soon as all have joined do not make joining fail") {
  constexpr int ranks = 8;
  for (int repeat = 0; repeat < 50; ++repeat) {
    descriptor const file = shm::create(ranks, 1);
    std::vector<pid_t> others;
    for (int r = 1; r < ranks; ++r)
      others.push_back(in_a_process([&] {
        if (r == ranks - 1) {
          ::signal(SIGSYS, [](int) { ::usleep(10000); });
          testing::filter_system_calls({SYS_process_vm_readv}, SECCOMP_RET_TRAP, SECCOMP_RET_ALLOW);
        }
        shm const me(file, r, ranks, 1, countdown(20s));
        ::raise(SIGKILL);
      }));
    CHECK_NOTHROW(shm(file, 0, ranks, 1, countdown(20s)));
    for (pid_t const other : others) await_end(other);
  }
}

TEST_CASE("a rank that cannot reserve its address space is named immediately") {
  descriptor const file = shm::create(2, 4);
  pid_t const refused = in_a_process([&] {
    std::size_t pages = 0;  // what this process has now, which is much under a sanitizer
    std::ifstream("/proc/self/statm") >> pages;
    std::size_t const room = pages * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE)) + (std::size_t{64} << 20);
    rlimit const limit{room, room};
    ::setrlimit(RLIMIT_AS, &limit);
    shm const rank(file, 1, 2, 4, countdown(20s));
  });
  error_code code{};
  try {
    shm(file, 0, 2, 4, countdown(60s));
  } catch (error const& e) {
    code = e.code();
    CHECK(e.peer() == 1);
  }
  CHECK(code == error_code::rank_lost);  // and not a timeout
  ::waitpid(refused, nullptr, 0);
}

TEST_CASE("ranks know whether a yield lets the others run: not those of another session") {
  if (!std::ifstream("/proc/self/autogroup")) {
    MESSAGE("skipped: this system divides no time among sessions");
    return;
  }
  int const cores = static_cast<int>(std::thread::hardware_concurrency());
  for (int const ranks : {2, cores + 1})
    for (bool const apart : {false, true}) {
      CAPTURE(ranks);
      CAPTURE(apart);
      descriptor const file = shm::create(ranks, 1);
      std::vector<pid_t> others;
      for (int r = 1; r < ranks; ++r)
        others.push_back(in_a_process([&] {
          if (apart && ::setsid() < 0) ::_exit(1);
          shm const me(file, r, ranks, 1, countdown(20s));
        }));
      shm const me(file, 0, ranks, 1, countdown(20s));
      CHECK(me.waits().yields_reach_peers == !apart);
      CHECK((me.waits().yields == 0us) == (apart && ranks > cores));
      for (pid_t const other : others) await_end(other);
    }
}

// The watch of each rank that has joined needs a descriptor, and begins in a nap.
TEST_CASE("a rank that waits for a late one and may open no more files throws an error") {
  descriptor const file = shm::create(4, 1);
  pid_t const others[] = {joined(file, 2, 4), joined(file, 3, 4)};
  pid_t const limited = in_a_process([&] {
    int const next = ::dup(0);
    ::close(next);
    rlimit const one_more{static_cast<rlim_t>(next) + 1, static_cast<rlim_t>(next) + 1};
    ::setrlimit(RLIMIT_NOFILE, &one_more);
    try {
      shm const me(file, 1, 4, 1, countdown(10s));
    } catch (error const& e) {
      ::_exit(e.code() == error_code::system ? 2 : 3);
    }
  });
  int status = 0;
  ::waitpid(limited, &status, 0);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 2);
  CHECK(join(file, 4, 10s).said.find("rank 1") != std::string::npos);
  for (pid_t const process : others) await_end(process);
}

// Only the outer process can see the other, which therefore watches their connection.
TEST_CASE("ranks in a container and outside it know of each other whether they live") {
  auto const code_of = [](pid_t process) {
    int status = -1;
    ::waitpid(process, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  };
  if (code_of(in_a_process([] { ::_exit(::unshare(CLONE_NEWPID) == 0 ? 0 : 1); })) != 0) {
    MESSAGE("skipped: process namespaces are not permitted");
    return;
  }
  std::string const name = "test-" + std::to_string(::getpid()) + "-nested";
  for (int const inner : {0, 1})
    for (int const first : {0, 1}) {
      CAPTURE(inner);
      CAPTURE(first);
      int ends[2];
      REQUIRE(::pipe(ends) == 0);
      descriptor const told(ends[0]), tell(ends[1]);
      auto const be_rank = [&](int rank) {
        ::alarm(20);
        countdown until(20s);
        rendezvous meeting(name, rank, 2, until);
        descriptor const file = meeting.meet([] { return shm::create(2, 1); });
        shm const me(file, rank, 2, 1, until, meeting.take_watches());
        char word = 0;
        if (rank == first) ::_exit(::read(told.get(), &word, 1) == 1 ? 0 : 2);
        std::this_thread::sleep_for(20ms);
        if (me.lost(first)) ::_exit(3);
        if (::write(tell.get(), &word, 1) != 1) ::_exit(2);
        for (int i = 0; i < 10'000 && !me.lost(first); ++i) std::this_thread::sleep_for(1ms);
        ::_exit(me.lost(first) ? 0 : 4);
      };
      auto const start = [&](int rank) {
        return in_a_process([&] {
          if (rank != inner) be_rank(rank);
          if (::unshare(CLONE_NEWPID) != 0) ::_exit(5);
          ::_exit(code_of(in_a_process([&] { be_rank(rank); })));
        });
      };
      pid_t const ranks[] = {start(0), start(1)};
      for (pid_t const rank : ranks) CHECK(code_of(rank) == 0);
    }
}

TEST_CASE("missing ranks are named at the deadline") {
  descriptor const file = shm::create(3, 1);
  refusal const r = join(file, 3, 200ms);
  CHECK(r.code == error_code::timeout);
  CHECK(r.said.find("timed out waiting for ranks 1, 2 to join") != r.said.npos);
}

TEST_CASE("a file for fewer ranks is rejected") {
  ::setenv("TUTTI_HEAP", "4096", 1);
  descriptor const small = shm::create(2, 1);
  ::unsetenv("TUTTI_HEAP");
  refusal const r = join(small, 64, 1s);
  CHECK(r.code == error_code::mismatch);
  CHECK(r.said.find("was made for fewer ranks than 64") != r.said.npos);
}
