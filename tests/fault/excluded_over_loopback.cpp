// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Ranks that hang are excluded over loopback.
// labels: threads twin
#include <doctest/doctest.h>

#include <atomic>

#include "fault/excluded.hpp"

using namespace tutti;
using namespace tutti::testing;

TEST_CASE("a thread that hangs is excluded, and told so when it runs again") {
  for (int const ranks : {2, 5}) {
    std::atomic<int> stage{0};
    CHECK_NOTHROW(run_threads(ranks, [&](auto& comm) { check_exclusion(comm, stage); }));
  }
}

TEST_CASE("an agreement need not wait for a thread that is late") {
  for (int const ranks : {2, 5}) {
    std::atomic<int> stage{0};
    CHECK_NOTHROW(run_threads(ranks, [&](auto& comm) { check_agreement_without_the_late(comm, stage); }));
  }
}

TEST_CASE("a loss on one communicator is repeated on another, with the same rank") {
  for (int const ranks : {2, 5}) CHECK_NOTHROW(run_threads(ranks, [](auto& comm) { check_repeated_loss(comm); }));
}

TEST_CASE("ranks see how many calls others have begun") {
  for (int const ranks : {1, 2, 5}) CHECK_NOTHROW(run_threads(ranks, [](auto& comm) { check_activity(comm); }));
}
