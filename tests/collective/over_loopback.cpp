// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Every registered algorithm over loopback.
// labels: threads twin computes
// timeout: 300
#include <doctest/doctest.h>

#include "collective/registered.hpp"
#include "support/mesh.hpp"

using namespace tutti;
using namespace tutti::detail;
using namespace tutti::testing;

TEST_CASE("every registered algorithm gives the right result over loopback") {
  for (int const ranks : rank_counts()) {
    CAPTURE(ranks);
    CHECK_NOTHROW(run_threads(ranks, [](auto& comm) { check_everything_registered(comm); }));
  }
}

TEST_CASE("packets of several lines are right on a mesh of cores, and elsewhere") {
  for (bool const mesh : {true, false}) {
    CAPTURE(mesh);
    mesh_as const processor(mesh);
    for (int const ranks : {2, 3}) {
      CAPTURE(ranks);
      CHECK_NOTHROW(run_threads(ranks, [](auto& comm) { check_everything_registered(comm, {9, 50, 130, 220}); }));
    }
  }
}

TEST_CASE("messages of many slices arrive whole over loopback") {
  for (int const ranks : rank_counts()) {
    CAPTURE(ranks);
    CHECK_NOTHROW(run_threads(ranks, [](auto& comm) { check_large_messages(comm, large_count(comm.size())); }));
  }
}
