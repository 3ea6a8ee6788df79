// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Members of a group that leave, are refused or come too late, over shm.
// labels: processes waits
#include <doctest/doctest.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <sys/mman.h>
#include <thread>
#include <vector>

#include "call/groups.hpp"

using namespace tutti;
using namespace tutti::detail;
using namespace tutti::testing;

TEST_CASE("members that do not come are named over shm") {
  for (int repeat = 0; repeat < (sanitized ? 5 : 20); ++repeat)
    CHECK_NOTHROW(run_local(3, [](auto& comm) { check_leaving_member(comm); }));
  CHECK_NOTHROW(run_local(3, [](auto& comm) { check_refused_member(comm); }));
  ::setenv("TUTTI_TIMEOUT", "3", 1);
  CHECK_NOTHROW(run_local(3, [](auto& comm) { check_late_member(comm); }));
  CHECK_NOTHROW(run_local(3, [](auto& comm) { check_refused_late_members(comm); }));
  ::unsetenv("TUTTI_TIMEOUT");
}

TEST_CASE("a rank that left because another is lost is not to blame") {
  void* const pages = ::mmap(nullptr, 3 * sizeof(int), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  REQUIRE(pages != MAP_FAILED);
  int* const blamed = static_cast<int*>(pages);
  auto const join = [&](auto& comm) {
    if (comm.rank() == 1) ::raise(SIGKILL);
    if (comm.rank() == 2) std::this_thread::sleep_for(std::chrono::milliseconds(300));
    error const e = error_of([&] { return comm.subgroup(std::vector{0, 1, 2}); });
    blamed[comm.rank()] = e.peer();
    if (comm.rank() == 0) auto const closed = std::move(comm);
  };
  CHECK_THROWS_AS(run_local(3, join), error);
  CHECK(blamed[0] == 1);
  CHECK(blamed[2] == 1);
  ::munmap(pages, 3 * sizeof(int));
}
