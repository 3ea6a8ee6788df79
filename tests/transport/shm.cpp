// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// shm: joining, and peers that end before all have joined. What collectives do over it is tested in tests/collective.
// labels: processes
#include <doctest/doctest.h>

#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <string>
#include <thread>

#include "tutti/transport/shm.hpp"

using namespace tutti;
using namespace std::chrono_literals;

namespace {

// Runs f in a process of its own.
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

void reap(pid_t process) { ::waitpid(process, nullptr, 0); }

// What joining as rank 0 throws, and after how many seconds.
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
    shm const me(file, 0, ranks, 1, deadline::after(time));
  } catch (error const& e) {
    out = {e.code(), e.peer(), e.what(), 0};
  }
  out.seconds = std::chrono::duration<double>(deadline::clock::now() - began).count();
  return out;
}

}  // namespace

TEST_CASE("a rank that ends while others are still to come is named at once") {
  descriptor const file = shm::create(3, 1);
  bool reaped = false;
  SUBCASE("and is still a zombie") {}
  SUBCASE("and is gone without a trace") { reaped = true; }
  pid_t const victim = in_a_process([&] { shm const me(file, 1, 3, 1, deadline::after(20s)); });
  std::this_thread::sleep_for(50ms);
  ::kill(victim, SIGKILL);
  if (reaped) reap(victim);
  refusal const r = join(file, 3, 20s);
  CHECK(r.code == error_code::rank_lost);
  CHECK(r.peer == 1);
  CHECK(r.said.find("rank 1 (process " + std::to_string(victim) + ") ended before all ranks had joined") !=
        r.said.npos);
  CHECK(r.seconds < 1);
  if (!reaped) reap(victim);
}

TEST_CASE("a rank that ended between its joining and ours is lost, even without a trace") {
  descriptor const file = shm::create(2, 1);
  pid_t const victim = in_a_process([&] { shm const me(file, 1, 2, 1, deadline::after(20s)); });
  std::this_thread::sleep_for(50ms);
  ::kill(victim, SIGKILL);
  reap(victim);
  shm const me(file, 0, 2, 1, deadline::after(20s));  // all ranks have joined
  CHECK(me.lost(1));
}

TEST_CASE("ranks that do not come are named at the deadline") {
  descriptor const file = shm::create(3, 1);
  refusal const r = join(file, 3, 200ms);
  CHECK(r.code == error_code::timeout);
  CHECK(r.said.find("waited for ranks to join that did not: 1, 2") != r.said.npos);
}

TEST_CASE("a file for fewer ranks, and a heap that makes no sense, are refused") {
  ::setenv("TUTTI_HEAP", "4096", 1);
  descriptor const small = shm::create(2, 1);
  ::setenv("TUTTI_HEAP", "much", 1);
  CHECK_THROWS_WITH_AS(shm::create(2, 1), doctest::Contains("TUTTI_HEAP=\"much\" is not a number of bytes"), error);
  ::unsetenv("TUTTI_HEAP");
  refusal const r = join(small, 64, 1s);
  CHECK(r.code == error_code::mismatch);
  CHECK(r.said.find("was made for fewer ranks than 64") != r.said.npos);
}

TEST_CASE("the size of the memory cannot be changed") {
  descriptor const file = shm::create(2, 1);
  CHECK(::ftruncate(file.get(), 0) != 0);
}
