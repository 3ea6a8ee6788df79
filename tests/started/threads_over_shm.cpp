// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A progress thread beside everything else, over shm.
// labels: processes
// timeout: 300
#include <doctest/doctest.h>

#include <cstdlib>
#include <string>

#include "started/threads.hpp"
#include "support/sanitized.hpp"
#include "support/temporary_folder.hpp"

using namespace tutti;
using namespace tutti::detail;
using namespace tutti::testing;

TEST_CASE("a progress thread lives beside operations of all kinds over shm") {
  CHECK_NOTHROW(run_local(5, [](auto& comm) {
    progress_thread const moves_all;
    check_stress(comm, 6, sanitized ? 200 : 1000);
  }));
}

TEST_CASE("a progress thread lives beside messages, agree, revoke and shrink over shm") {
  temporary_folder const at;
  std::string const prefix = at.path() / "threads";
  ::setenv("TUTTI_TRACE", prefix.c_str(), 1);
  for (int const ranks : {2, 5})
    CHECK_NOTHROW(run_local(ranks, [&](auto& comm) { check_beside_progress_thread(comm, true, prefix); }));
  ::unsetenv("TUTTI_TRACE");
}
