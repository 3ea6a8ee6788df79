// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Buckets are reduced by priority, over loopback.
// labels: threads twin
// timeout: 200
#include "support/sanitized.hpp"
#include "training/priority.hpp"

#include <doctest/doctest.h>

using namespace tutti;
using namespace tutti::testing;

TEST_CASE("gradients in buckets are averaged by priority over loopback") {
  for (int const ranks : ranks_to_test({1, 2, 3, 4, 8})) {
    CAPTURE(ranks);
    CHECK_NOTHROW(run_threads(ranks, [](auto& comm) { check_steps_by_priority(comm); }));
    CHECK_NOTHROW(run_threads(ranks, [](auto& comm) { check_hooks_by_priority(comm); }));
    CHECK_NOTHROW(run_threads(ranks, [](auto& comm) { check_two_rounds_by_priority(comm); }));
  }
}

TEST_CASE("the first layer is reduced first, and used before others are complete, over loopback") {
  for (int const ranks : ranks_to_test({2, 3, 4, 8}))
    for (int const concurrent : {1, 2}) {
      CAPTURE(ranks);
      CAPTURE(concurrent);
      shared_count begun, reported, used;
      CHECK_NOTHROW(run_threads(ranks, [&](auto& comm) { check_priority(comm, concurrent, begun, reported, used); }));
    }
}
