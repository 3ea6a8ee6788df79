// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Every registered algorithm over shm.
// labels: processes optimised computes
// timeout: 300
#include <doctest/doctest.h>

#include "collective/registered.hpp"

using namespace tutti;
using namespace tutti::detail;
using namespace tutti::testing;

TEST_CASE("every registered algorithm gives the right result over shm") {
  for (int const ranks : rank_counts()) {
    CAPTURE(ranks);
    CHECK_NOTHROW(run_local(ranks, [](auto& comm) { check_everything_registered(comm); }));
  }
}

TEST_CASE("messages of many slices arrive whole over shm") {
  for (int const ranks : rank_counts()) {
    CAPTURE(ranks);
    CHECK_NOTHROW(run_local(ranks, [](auto& comm) { check_large_messages(comm, large_count(comm.size())); }));
  }
}

TEST_CASE("messages that are written past the caches arrive whole over shm") {
  for (int const ranks : {2, 3}) {
    CAPTURE(ranks);
    CHECK_NOTHROW(run_local(ranks, [](auto& comm) { check_large_messages(comm, streamed_count); }));
  }
}
