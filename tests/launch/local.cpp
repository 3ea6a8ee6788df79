// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// run_local: ranks as forked processes, how they fail, and what they leave behind.
// labels: processes waits
#include <doctest/doctest.h>

#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <thread>

#include "launch/command.hpp"
#include "tutti/tutti.hpp"

using namespace tutti;
using namespace tutti::detail;
using namespace tutti::testing;

namespace {

// The error that run_local throws for a function of ranks.
template <class F>
error failure_of(int ranks, F&& f) {
  try {
    run_local(ranks, f);
  } catch (error const& e) {
    return e;
  }
  FAIL("no rank failed");
  return error({});
}

bool has(error const& e, std::string const& text) { return std::string(e.what()).find(text) != std::string::npos; }

bool has_children() { return ::waitpid(-1, nullptr, WNOHANG) >= 0 || errno != ECHILD; }

}  // namespace

TEST_CASE("every rank runs once, in a process of its own") {
  for (int const ranks : {1, 2, 7, 16}) {
    auto* const seen = static_cast<std::atomic<int>*>(
        ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
    run_local(ranks, [&](auto& comm) {
      if (comm.size() != ranks) throw std::runtime_error("wrong size");
      seen[comm.rank()].fetch_add(static_cast<int>(::getpid()));
      barrier(comm);
      for (int r = 0; r < comm.rank(); ++r)
        if (seen[r].load() == seen[comm.rank()].load()) throw std::runtime_error("two ranks are one process");
    });
    for (int r = 0; r < ranks; ++r) CHECK(seen[r].load() > 0);
    CHECK(seen[ranks].load() == 0);
    ::munmap(seen, 4096);
    CHECK_FALSE(has_children());
  }
}

TEST_CASE("the words of an exception come with its rank, before those of the ranks that missed it") {
  for (int trial = 0; trial < 20; ++trial) {
    error const e = failure_of(4, [](auto& comm) {
      barrier(comm);
      if (comm.rank() == 2) throw std::runtime_error("no bread in the house");
      barrier(comm);
    });
    CAPTURE(e.what());
    CHECK(e.code() == error_code::rank_lost);
    CHECK(e.peer() == 2);
    CHECK(has(e, "tutti: rank 2 ended with exit code 1, no bread in the house"));
    // Ranks that report the same fault say so, instead of repeating it.
    auto const told = lines_with(e.what(), "tutti: rank 2 closed its communicator after call #1");
    CHECK(told >= 1);
    CHECK(told + lines_with(e.what(), "ended with exit code 1, the same error") == 3);
    CHECK(has(e, "start with the first, which caused the others"));
    CHECK_FALSE(has_children());
  }
}

TEST_CASE("an exception of any kind and any length is told") {
  CHECK(has(failure_of(2,
                       [](auto& comm) {
                         if (comm.rank() == 1) throw 5;
                       }),
            "rank 1 ended with exit code 1, an exception that is not a std::exception"));
  error const e = failure_of(2, [](auto& comm) {
    if (comm.rank() == 1) throw std::runtime_error(std::string(1 << 20, 'x'));
  });
  CHECK(has(e, "exit code 1, xxxx"));
}

TEST_CASE("exit codes and signals are told") {
  error const left = failure_of(3, [](auto& comm) {
    if (comm.rank() == 1) ::_exit(42);
  });
  CHECK(has(left, "rank 1 ended with exit code 42"));
  CHECK(left.peer() == 1);
  for (int trial = 0; trial < 20; ++trial) {
    error const killed = failure_of(4, [](auto& comm) {
      barrier(comm);
      if (comm.rank() == 3) ::raise(SIGKILL);
      barrier(comm);
    });
    CAPTURE(killed.what());
    CHECK(killed.peer() == 3);
    CHECK(has(killed, "tutti: rank 3 was ended by signal 9 (Killed)"));
    CHECK(lines_with(killed.what(), "tutti: rank 3 (process ") >= 1);
    CHECK(lines_with(killed.what(), "tutti: rank 3 (process ") + lines_with(killed.what(), "the same error") == 3);
  }
}

TEST_CASE("what the parent has not printed yet is printed once") {
  // Stands for the output: a file for which the parent has buffered text.
  char path[] = "/tmp/tutti-test-XXXXXX";
  int const file = ::mkstemp(path);
  REQUIRE(file >= 0);
  ::unlink(path);
  std::FILE* const out = ::fdopen(file, "w+");
  std::fputs("before\n", out);
  run_local(3, [&](auto& comm) { std::fprintf(out, "rank %d\n", comm.rank()); });
  std::fputs("after\n", out);
  std::fflush(out);
  std::string text(1000, '\0');
  text.resize(static_cast<std::size_t>(::pread(file, text.data(), text.size(), 0)));
  CAPTURE(text);
  CHECK(lines_with(text, "before\n") == 1);
  CHECK(lines_with(text, "rank ") == 3);
  CHECK(lines_with(text, "after\n") == 1);
  std::fclose(out);
}

TEST_CASE("the output of ranks is not lost where the standard streams have buffers of their own") {
  command ranks("sh -c '" TUTTI_RANKS " buffered_output'");
  CHECK(ranks.wait() == 0);
  CAPTURE(ranks.output);
  CHECK(lines_with(ranks.output, "before\n") == 1);
  for (char const r : {'0', '1'}) CHECK(lines_with(ranks.output, std::string("rank ") + r + "\n") == 1);
}

TEST_CASE("ranks that never end are killed some time after the first failure") {
  stopwatch time;
  error const e = failure_of(3, [](auto& comm) {
    if (comm.rank() == 1) throw std::runtime_error("first");
    std::this_thread::sleep_for(std::chrono::seconds(100));
  });
  CHECK(time.seconds() > 9);
  CHECK(time.seconds() < 90);
  CHECK(has(e, "tutti: rank 1 ended with exit code 1, first"));
  CHECK(has(e, "rank 0 was ended by signal 9"));
  CHECK_FALSE(has_children());
}

TEST_CASE("a program that ignores its children hears of ranks nevertheless") {
  ::signal(SIGCHLD, SIG_IGN);
  CHECK_NOTHROW(run_local(2, [](auto& comm) { barrier(comm); }));
  error const e = failure_of(2, [](auto& comm) {
    if (comm.rank() == 1) ::raise(SIGKILL);
    barrier(comm);
  });
  CHECK(has(e, "rank 1 was ended by signal 9"));
  bool const as_before = ::signal(SIGCHLD, SIG_DFL) == SIG_IGN;
  CHECK(as_before);
}

TEST_CASE("numbers of ranks that make no sense are refused") {
  for (int const ranks : {0, -1, max_ranks + 1})
    CHECK_THROWS_WITH_AS(run_local(ranks, [](auto&) {}), doctest::Contains("ranks were asked for"), error);
}

TEST_CASE("no process is left where not all can be started") {
  // In a process of its own, because the limit is permanent.
  pid_t const process = ::fork();
  if (process == 0) {
    rlimit const few{24, 24};
    ::setrlimit(RLIMIT_NOFILE, &few);
    bool said = false;
    try {
      run_local(64, [](auto& comm) { barrier(comm); });
    } catch (error const& e) {
      said = has(e, "raise the limit of open files");
    }
    ::_exit(said && !has_children() ? 0 : 1);
  }
  int status = -1;
  ::waitpid(process, &status, 0);
  CHECK(status == 0);
}
