// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// labels: processes
#include "tutti/core/process.hpp"

#include <doctest/doctest.h>

#include <sys/wait.h>
#include <unistd.h>

#include <mutex>
#include <thread>

using namespace tutti::detail;

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
