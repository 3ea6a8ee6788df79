// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Ranks that are processes forked by a test, which can stop and kill them.
#pragma once

#include <doctest/doctest.h>

#include <sys/mman.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdio>
#include <exception>
#include <span>
#include <string>
#include <thread>

#include "support/environment.hpp"
#include "tutti/core/error.hpp"
#include "tutti/core/wait.hpp"

namespace tutti::testing {

// Starts a rank of a job, in which body() may call init(). Its exit code is 0, 1 plus the error's code, or 100 for any
// other exception.
template <class Body>
pid_t fork_rank(std::string const& job, int rank, int size, std::string const& timeout, Body const& body) {
  pid_t const child = ::fork();
  REQUIRE(child >= 0);
  if (child != 0) return child;
  environment const place{{"TUTTI_RANK", std::to_string(rank)},
                          {"TUTTI_SIZE", std::to_string(size)},
                          {"TUTTI_JOB", job},
                          {"TUTTI_TIMEOUT", timeout}};
  int code = 0;
  try {
    body();
  } catch (error const& e) {
    std::fprintf(stderr, "rank %d: %s\n", rank, e.what());
    code = 1 + static_cast<int>(e.code());
  } catch (std::exception const& e) {
    std::fprintf(stderr, "rank %d: %s\n", rank, e.what());
    code = 100;
  }
  ::_exit(code);
}

// Objects that this process shares with those that it forks; zero at first.
template <class T>
class shared_with_forks {
 public:
  explicit shared_with_forks(std::size_t count = 1) : count_(count) {
    memory_ = ::mmap(nullptr, count * sizeof(T), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    REQUIRE(memory_ != MAP_FAILED);
  }
  shared_with_forks(shared_with_forks const&) = delete;
  shared_with_forks& operator=(shared_with_forks const&) = delete;
  ~shared_with_forks() { ::munmap(memory_, count_ * sizeof(T)); }

  std::span<T> all() const { return {static_cast<T*>(memory_), count_}; }
  T& operator[](std::size_t i) const { return all()[i]; }

 private:
  std::size_t count_;
  void* memory_;
};

inline bool was_killed(int status) { return WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL; }

// Waits for the ranks of a job. Returns what is wrong: a rank that still runs after `most`, or whose status is not
// right(rank, status).
template <class Right>
std::string end_of_ranks(std::span<pid_t const> ranks, std::chrono::seconds most, Right const& right) {
  std::string wrong;
  auto const until = detail::deadline::after(most);
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    int status = 0;
    bool hangs = false;
    while (::waitpid(ranks[r], &status, hangs ? 0 : WNOHANG) == 0) {
      hangs = until.passed();
      if (hangs) ::kill(ranks[r], SIGKILL);
      else std::this_thread::sleep_for(std::chrono::microseconds(200));
    }
    if (hangs) wrong += " rank " + std::to_string(r) + " hangs;";
    else if (!right(static_cast<int>(r), status))
      wrong += " rank " + std::to_string(r) + " ended with status " + std::to_string(status) + ";";
  }
  return wrong;
}

}  // namespace tutti::testing
