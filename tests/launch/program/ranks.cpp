// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A program that a launcher starts as several ranks; its first argument selects its task.
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "support/expect.hpp"
#include "tutti/fault/survival.hpp"
#include "tutti/training/elastic/elastic_loop.hpp"
#include "tutti/tutti.hpp"

using namespace std::chrono_literals;

namespace {

// Every rank checks the sum of its job's values; if jobs mixed, the sum would be wrong.
bool sums_up(tutti::communicator<tutti::shm>& comm, int value) {
  std::vector<int> data(1000, value + comm.rank());
  tutti::all_reduce(comm, data);
  int const size = comm.size();
  for (int const x : data)
    if (x != size * value + size * (size - 1) / 2) return false;
  return true;
}

// How a rank fails: by default it kills itself.
int failure() { return std::getenv("VICTIM_HANGS") != nullptr ? SIGSTOP : SIGKILL; }

// A member fails in step 10, unless it replaces another. Takes a second or two, in which others can join.
int train_elastically(int victim) {
  std::uint64_t sum = 0;
  bool const replaces = std::getenv("TUTTI_ELASTIC_JOIN") != nullptr;
  tutti::place const me = tutti::find_place();
  std::chrono::milliseconds const patience(failure() == SIGSTOP ? 300 : 0);
  tutti::training::elastic_loop loop({.exclude_after = patience});
  loop.run(
      100, [&](auto&) { return std::vector{tutti::training::replicated("sum", sum)}; },
      [&](auto& comm, std::uint64_t step) {
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
        if (me.rank == victim && step == 10 && !replaces) ::raise(failure());
        sum += tutti::all_reduce(comm, comm.is_main() ? step : 0, tutti::sum{}, {.timeout = 2 * patience});
      });
  if (sum != 100 * 101 / 2) return 3;
  std::printf("rank %d of %d: right\n", loop.comm().rank(), loop.comm().size());
  char const* const code = std::getenv("CODE_OF_SURVIVORS");
  return code != nullptr ? std::atoi(code) : 0;
}

// Rank 1 ends, and rank 2 a second later; a process that replaces rank 1 says only then that it has joined.
int join_late(int rank) {
  auto const wait = [](int seconds) { std::this_thread::sleep_for(std::chrono::seconds(seconds)); };
  if (std::getenv("TUTTI_ELASTIC_JOIN") != nullptr) {
    wait(2);
    tutti::detail::report_join(rank);
    wait(4);
    return 0;
  }
  wait(rank == 1 ? 0 : rank == 2 ? 1 : 6);
  return rank == 1 || rank == 2 ? 1 : 0;
}

// Leaves two processes behind, of which the second traces the first, which therefore does not end before the second does.
int leave_traced() {
  int ready[2];
  if (::pipe(ready) != 0) return 1;
  auto const fork_and_wait = [&](auto&& prepare) {
    char word = 0;
    pid_t const process = ::fork();
    if (process == 0) {
      ::alarm(61);
      bool told = prepare();
      told &= ::write(ready[1], &word, 1) == 1;
      while (told) ::pause();
      ::_exit(1);
    }
    return ::read(ready[0], &word, 1) == 1 ? process : -1;
  };
  pid_t const traced = fork_and_wait([] {
    ::prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
    return true;
  });
  return fork_and_wait([&] { return ::ptrace(PTRACE_SEIZE, traced, nullptr, nullptr) == 0; }) > 0 ? 0 : 1;
}

int run(std::string const& task, int number) {
  tutti::place const me = tutti::find_place();
  if (task == "absent" && me.rank == number) {              // a rank that runs but does not arrive
    std::this_thread::sleep_for(std::chrono::seconds(60));  // or until the launcher ends it
    return 0;
  }
  if (task == "end-early" && me.rank == number) return 9;
  if (task == "run") {
    tutti::run(number, [](auto& comm) {
      if (!sums_up(comm, 1)) throw std::runtime_error("the sum is wrong");
      std::printf("rank %d of %d: right\n", comm.rank(), comm.size());
    });
    return 0;
  }
  if (task == "again") {  // one rank is too late for the first attempt of the others
    if (me.rank == number) std::this_thread::sleep_for(std::chrono::seconds(4));
    else if (tutti::testing::error_of([] { static_cast<void>(tutti::init()); }).code() != tutti::error_code::timeout)
      return 3;
    ::setenv("TUTTI_TIMEOUT", "60", 1);
  }
  if (task == "elastic") return train_elastically(number);
  if (task == "late_join") return join_late(me.rank);
  if (task == "leave_traced") return leave_traced();
  auto comm = tutti::init();
  if (task == "sum" || task == "again") {
    if (!sums_up(comm, number)) return 3;
    std::printf("rank %d of %d: right\n", comm.rank(), comm.size());
  } else if (task == "twice") {
    auto again = tutti::init();
    if (!sums_up(again, 1) || !sums_up(comm, 2)) return 3;
    std::printf("rank %d of %d: right\n", again.rank(), again.size());
  } else if (task == "killed") {
    for (int i = 0; true; ++i) {
      if (i == 100 && comm.rank() == number) ::raise(SIGKILL);
      tutti::barrier(comm);
    }
  } else if (task == "survive") {
    try {
      for (int i = 0; true; ++i) {
        if (i == 100 && comm.rank() == number) ::raise(failure());
        tutti::barrier(comm, {.timeout = 5s});
      }
    } catch (tutti::error const& e) {
      if (e.code() != (failure() == SIGSTOP ? tutti::error_code::timeout : tutti::error_code::rank_lost) ||
          e.peer() != number)
        throw;
    }
    comm = comm.shrink({.exclude_after = failure() == SIGSTOP ? 300ms : 0ms});
    char const* const longer = std::getenv("SECONDS_AFTER_SHRINK");
    std::this_thread::sleep_for(std::chrono::seconds(longer != nullptr ? std::atoi(longer) : 0));
    if (!sums_up(comm, 1)) return 3;
    std::printf("rank %d of %d: right\n", comm.rank(), comm.size());
    char const* const code = std::getenv("CODE_OF_SURVIVORS");
    return code != nullptr ? std::atoi(code) : 0;
  } else if (task == "roots") {  // each is the root of its own last call, and so does not wait for others
    std::vector<int> data(3);
    tutti::broadcast(comm, data, comm.rank());
  } else if (task == "forks") {  // a process that a rank forks must not affect the rank when it ends
    if (::fork() == 0) return 0;
    if (!sums_up(comm, 1)) return 3;
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    if (!sums_up(comm, 1)) return 3;
  }
  return 0;
}

// Every rank fails, rank 2 first, and nobody catches the error.
[[noreturn]] void fail_uncaught() {
  auto comm = tutti::init();
  if (comm.rank() == 2) {
    std::vector<int> data(3);
    tutti::broadcast(comm, data, 17);
  }
  for (;;) tutti::barrier(comm);
}

// Rank 1 aborts the job, and nobody catches the errors that the others get.
[[noreturn]] void abort_job() {
  auto comm = tutti::init();
  tutti::barrier(comm);
  if (comm.rank() == 1) comm.abort("the disk is full", 7);
  for (;;) tutti::barrier(comm);
}

// Starts ranks of its own. std::cout has a buffer.
int print_through_buffers() {
  std::ios::sync_with_stdio(false);
  std::cout << "before\n";
  tutti::run(2, [](auto& comm) { std::cout << "rank " << comm.rank() << '\n'; });
  return 0;
}

// Each rank fails by itself, and nobody catches the errors.
[[noreturn]] void fail_differently() {
  auto const comm = tutti::init();
  throw tutti::error({.code = tutti::error_code::bad_argument,
                      .rank = comm.rank(),
                      .what = "file " + std::to_string(comm.rank()) + " cannot be read",
                      .way_out = "check its name"});
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 1 && std::string(argv[1]) == "uncaught") fail_uncaught();
  if (argc > 1 && std::string(argv[1]) == "abort") abort_job();
  if (argc > 1 && std::string(argv[1]) == "uncaught_differently") fail_differently();
  if (argc > 1 && std::string(argv[1]) == "buffered_output") return print_through_buffers();
  try {
    return run(argc > 1 ? argv[1] : "sum", argc > 2 ? std::atoi(argv[2]) : 0);
  } catch (tutti::error const& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 1;
  }
}
