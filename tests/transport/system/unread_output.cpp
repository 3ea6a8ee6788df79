// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// labels: processes
#include "tutti/transport/system/unread_output.hpp"

#include <doctest/doctest.h>

#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <thread>

namespace {

// A child that has written to this pipe, its standard error, and ends when wait_for_reader_of_output() returns.
pid_t fork_writer(std::array<int, 2> const& pipe) {
  pid_t const child = ::fork();
  if (child != 0) return child;
  ::dup2(pipe[1], STDERR_FILENO);
  bool const written = ::write(STDERR_FILENO, "why", 3) == 3;
  tutti::detail::wait_for_reader_of_output();
  ::_exit(written ? 0 : 1);
}

}  // namespace

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
