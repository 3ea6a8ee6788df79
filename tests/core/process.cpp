// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// labels: processes
#include "tutti/core/process.hpp"

#include <doctest/doctest.h>

#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <mutex>
#include <thread>

using namespace tutti::detail;

namespace {

// A child that has written to this pipe, its standard error, and ends when let_output_be_read() returns.
pid_t fork_writer(std::array<int, 2> const& pipe) {
  pid_t const child = ::fork();
  if (child != 0) return child;
  ::dup2(pipe[1], STDERR_FILENO);
  bool const written = ::write(STDERR_FILENO, "why", 3) == 3;
  let_output_be_read();
  ::_exit(written ? 0 : 1);
}

}  // namespace

TEST_CASE("a forked child gets an object of its own, whoever holds the lock of its parent's") {
  struct counter {
    std::mutex busy;
    int count = 1;
  };
  static constinit one_per_process<counter> counters;
  counter& own = counters.get();
  std::lock_guard const held(own.busy);
  own.count = 2;
  CHECK(&counters.get() == &own);
  pid_t const child = ::fork();
  if (child == 0) {
    counter& mine = counters.get();
    ::_exit(mine.busy.try_lock() && mine.count == 1 && &counters.get() == &mine ? 0 : 1);
  }
  int status = -1;
  CHECK(::waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
  CHECK(&counters.get() == &own);
}

TEST_CASE("threads that ask for it first get the same object") {
  static constinit one_per_process<int> numbers;
  int* of_thread = nullptr;
  std::jthread([&] { of_thread = &numbers.get(); }).join();
  CHECK(of_thread == &numbers.get());
}

TEST_CASE("a process stays until its output has been read") {
  std::array<int, 2> pipe{};
  REQUIRE(::pipe(pipe.data()) == 0);
  pid_t const child = fork_writer(pipe);
  for (int bytes = 0; bytes < 3;) REQUIRE(::ioctl(pipe[0], FIONREAD, &bytes) == 0);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  int status = -1;
  CHECK(::waitpid(child, &status, WNOHANG) == 0);
  std::array<char, 4> text{};
  CHECK(::read(pipe[0], text.data(), text.size()) == 3);
  CHECK(::waitpid(child, &status, 0) == child);
  CHECK(status == 0);
  ::close(pipe[0]), ::close(pipe[1]);
}

TEST_CASE("a process whose output nobody reads ends nevertheless") {
  std::array<int, 2> pipe{};
  REQUIRE(::pipe(pipe.data()) == 0);
  pid_t const child = fork_writer(pipe);
  int status = -1;
  CHECK(::waitpid(child, &status, 0) == child);
  CHECK(status == 0);
  ::close(pipe[0]), ::close(pipe[1]);
}
