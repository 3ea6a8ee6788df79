// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Random operations in flight over MPI and on a node, while ranks are stopped again and again at random moments. One rank is
// refused handles of processes, and another has no room in /dev/shm. Nothing is lost. A job may also be stopped as a whole.
// TUTTI_TEST_OPERATIONS is the number of operations each over MPI and on the node, TUTTI_TEST_SEED their seed.
// ranks: 4
// labels: alone waits
// timeout: 200
#include <doctest/doctest.h>

#include <poll.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <optional>
#include <random>
#include <thread>

#include "collective/stress.hpp"
#include "mpi/ranks.hpp"
#include "support/full_shared_files.hpp"
#include "support/system_calls.hpp"

using namespace tutti;
using namespace tutti::testing;

namespace {

unsigned first_seed() {
  char const* const text = std::getenv("TUTTI_TEST_SEED");
  return text != nullptr ? static_cast<unsigned>(std::atoi(text)) : 1;
}

void stop(pid_t process, std::chrono::milliseconds time) {
  ::kill(process, SIGSTOP);
  std::this_thread::sleep_for(time);
  ::kill(process, SIGCONT);
}

// A child of this process stops it once, for `time`, a moment after its construction.
class stop_soon {
 public:
  explicit stop_soon(std::chrono::milliseconds time) {
    pid_t const target = ::getpid();
    child_ = ::fork();
    REQUIRE(child_ >= 0);
    if (child_ != 0) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    stop(target, time);
    ::_exit(0);
  }
  stop_soon(stop_soon const&) = delete;
  stop_soon& operator=(stop_soon const&) = delete;
  ~stop_soon() { ::waitpid(child_, nullptr, 0); }

 private:
  pid_t child_ = -1;
};

// As long as it lives, a child of this process stops it for moments.
class interruptions {
 public:
  explicit interruptions(unsigned seed) {
    REQUIRE(::pipe(end_.data()) == 0);
    pid_t const target = ::getpid();
    child_ = ::fork();
    REQUIRE(child_ >= 0);
    if (child_ == 0) interrupt(target, seed);
    ::close(end_[0]);
  }
  interruptions(interruptions const&) = delete;
  interruptions& operator=(interruptions const&) = delete;
  ~interruptions() {
    ::close(end_[1]);
    ::waitpid(child_, nullptr, 0);
  }

 private:
  // Never leaves the process stopped.
  [[noreturn]] void interrupt(pid_t target, unsigned seed) {
    ::close(end_[1]);
    std::mt19937 random(seed);
    auto const milliseconds = [&](unsigned most) { return static_cast<int>(1 + random() % most); };
    for (pollfd asked_to_end{end_[0], POLLIN, 0}; ::poll(&asked_to_end, 1, milliseconds(80)) == 0;)
      stop(target, std::chrono::milliseconds(milliseconds(30)));
    ::_exit(0);
  }

  std::array<int, 2> end_{};
  pid_t child_ = -1;
};

constexpr int refused = 1, without_room = 2;  // ranks

}  // namespace

TEST_CASE("nothing is lost over MPI and on a node while ranks are stopped for moments") {
  int const rank = world().rank();
  if (rank == refused) CHECK(filter_system_calls({SYS_pidfd_open}, SECCOMP_RET_ERRNO | EPERM, SECCOMP_RET_ALLOW));
  std::optional<full_shared_files> full;  // until the MPI removes its own
  if (rank == without_room) full.emplace();
  unsigned const seed = first_seed();
  interruptions const here(seed * 100 + static_cast<unsigned>(rank));
  CHECK(on_ranks(world().size(), [&](auto& comm) { check_stress(comm, seed, 150); }) == "");
  CHECK(on_ranks(world().size(), hierarchical_ranks, [&](auto& comm) { check_stress(comm, seed + 1, 150); }) == "");
}

TEST_CASE("a job over MPI that is stopped as a whole for longer than its timeout goes on") {
  auto const check = [](auto& comm) {
    using std::chrono::seconds;
    std::vector<int> one(1, 1);
    barrier(comm);
    stop_soon const all(seconds(4));
    if (comm.rank() == 1) std::this_thread::sleep_for(seconds(1));  // the others wait for it when they are stopped
    all_reduce(comm, one, sum{}, {.timeout = seconds(3)});
    expect(one[0] == comm.size(), "a sum is wrong");
  };
  CHECK(on_ranks(world().size(), check) == "");
  CHECK(on_ranks(world().size(), hierarchical_ranks, check) == "");
}
