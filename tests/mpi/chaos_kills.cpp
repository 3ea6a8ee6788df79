// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A rank of an MPI job is killed at a random moment while random operations are in flight, under a launcher that leaves the others alone.
// Every result is exact or an error. The seed (TUTTI_TEST_SEED) decides whether the ranks are flat, on one node, or on nodes of
// two; or flat, and one of them does not see the processes of the others. Each survivor prints what it was told, and chaos_kills.sh, which
// starts the jobs, compares.
// No blocking call uses `native`, by default with Open MPI 4 and by TUTTI_NATIVE=0 with other MPIs: without fault tolerance, an MPI never
// returns from its own collective when a rank dies in it.
// ranks: 4
// kills: chaos_kills.sh
// labels: alone
// timeout: 120
#include <doctest/doctest.h>

#include <sched.h>
#include <sys/mount.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>

#include "fault/losses.hpp"
#include "fault/random_traffic.hpp"
#include "support/expect.hpp"
#include "tutti/mpi.hpp"

using namespace tutti;
using namespace tutti::detail;
using namespace tutti::testing;

namespace {

constexpr int ranks_of_node = 2;

// With TUTTI_TEST_WAITS, the last rank is killed while the others wait for it with nothing in flight: over TCP, Open MPI 4 may never return
// from a call when it sends to a rank that has died.
bool only_waits() { return std::getenv("TUTTI_TEST_WAITS") != nullptr; }

// What becomes of the job; the same on all ranks.
struct kill_plan {
  int victim;
  std::chrono::microseconds after;

  static kill_plan of(unsigned seed, int ranks) {
    if (only_waits()) return {ranks - 1, std::chrono::milliseconds(20)};
    std::mt19937 random(seed);
    return {static_cast<int>(random() % static_cast<unsigned>(ranks)), std::chrono::microseconds(random() % 60'000)};
  }
};

// As if the others were on another machine: this rank then learns of their ends only from ranks that see them. Without the permission to
// hide them it sees them, too.
void see_no_processes() {
  if (::unshare(CLONE_NEWNS) != 0) return;
  if (::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) return;  // in a chroot, / is no mount
  expect(::mount("none", "/proc", "tmpfs", 0, nullptr) == 0, "cannot hide /proc");
}

// Whether one rank sees no processes, and so learns of the loss only by messages.
bool unseen(unsigned seed) { return seed % 4 == 3; }

// Whether the victim of such a job dies between two calls of the MPI, instead of at any moment. UCX, over which MPICH sends, has one queue
// for all senders on a machine, and one that dies between reserving its place and filling it holds up all later messages.
#if defined(MPICH_VERSION)
constexpr bool spares_queue = true;
#else
constexpr bool spares_queue = false;
#endif

// Ends well if this rank was told who is dead, by its number, before the deadline.
template <class Algorithm = automatic, class Comm>
void suffer(Comm first, unsigned seed) {
  std::optional<Comm> comm(std::move(first));
  kill_plan const plan = kill_plan::of(seed, comm->size());
  int const rank = comm->rank();
  std::chrono::nanoseconds const limit = comm->engine().environment.timeout;
  auto last = deadline::clock::now();
  std::optional<error> told;
  long operations = 0;
  {
    random_traffic<Comm, Algorithm> all(*comm, seed);
    try {
      barrier<Algorithm>(*comm);  // others may still be in it when the victim dies
      auto const began = last = deadline::clock::now();
      bool const victim = rank == plan.victim, between_calls = spares_queue && unseen(seed);
      if (victim && !between_calls) die_in(plan.after);
      for (;; ++operations) {
        last = deadline::clock::now();
        if (victim && between_calls && last >= began + plan.after) ::raise(SIGKILL);
        if (!only_waits()) all.step();
        else if (victim) ::pause();
        else barrier<Algorithm>(*comm);
      }
    } catch (error const& e) {
      told = e;
    }
  }
  auto const now = deadline::clock::now();
  expect(rank != plan.victim, "a rank that is killed goes on");
  expect(told->code() == error_code::rank_lost && told->peer() == plan.victim,
         std::string("the wrong rank is to blame: ") + told->what());
  expect(contains(*told, comm->can_shrink() ? "continue without that rank by shrink()"
                                            : "cannot shrink(), which needs an MPI with fault tolerance (ULFM)"),
         std::string("it recommends another way out: ") + told->what());
  // Each operation may wait for one deadline, and then for 1.2 s until all know the same fault.
  expect(now - last < limit + std::chrono::seconds(10), std::string("told after the deadline: ") + told->what());
  comm.reset();
  expect(deadline::clock::now() - now < limit + std::chrono::seconds(10), "closing waits for the rank that was lost");
  std::printf("rank %d was told: code %d: %s\n", rank, static_cast<int>(told->code()), told->happened().c_str());
  std::printf("rank %d killed, %d named after %ld ms in operation %ld by %s\n", plan.victim, told->peer(),
              static_cast<long>(std::chrono::duration_cast<std::chrono::milliseconds>(now - last).count()), operations,
              told->what());
}

}  // namespace

TEST_CASE("whenever a rank of an MPI job is killed, the others are told the same and who it was") {
  start_mpi();
  std::signal(SIGUSR1, SIG_IGN);  // by which the launcher of MPICH tells ranks of the loss
  char const* const said = std::getenv("TUTTI_TEST_SEED");
  auto const seed = static_cast<unsigned>(said != nullptr ? std::atoi(said) : 0);
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  int code = 1;
  try {
    if (unseen(seed) && rank == (kill_plan::of(seed, 4).victim + 1) % 4) see_no_processes();
    if (seed % 4 == 0 || unseen(seed)) {
      suffer(from_mpi(), seed);
    } else if (seed % 4 == 1) {
      suffer(from_mpi<hierarchical>(), seed);
    } else {
      suffer<two_level<>>(communicator<hierarchical>(std::make_unique<hierarchical>(
                              MPI_COMM_WORLD, all_tracks, settings::from_environment().timeout, rank / ranks_of_node)),
                          seed);
    }
    code = 0;
  } catch (std::exception const& e) {
    std::printf("rank %d: %s\n", rank, e.what());
  }
  std::fflush(stdout);
  std::_Exit(code);  // MPI_Finalize of an MPI without fault tolerance waits for all ranks, or ends the job
}
