// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Calls that are started, over loopback.
// labels: threads twin
// timeout: 200
#include <doctest/doctest.h>

#include "started/async.hpp"
#include "support/sanitized.hpp"

using namespace tutti;
using namespace tutti::detail;
using namespace tutti::testing;

TEST_CASE("started calls do what blocking ones do over loopback") {
  for (int const ranks : ranks_to_test({1, 2, 3, 5})) {
    CAPTURE(ranks);
    CHECK_NOTHROW(run_threads(ranks, [](auto& comm) { check_all_started<affine, compose>(comm); }));
  }
  for (int const ranks : ranks_to_test({2, 4})) {
    CAPTURE(ranks);
    CHECK_NOTHROW(run_threads(ranks, [](auto& comm) { check_several_communicators(comm); }));
    CHECK_NOTHROW(run_threads(ranks, [](auto& comm) { check_lists(comm); }));
    CHECK_NOTHROW(run_threads(ranks, [](auto& comm) { check_progress_thread(comm); }));
    CHECK_NOTHROW(run_threads(ranks, [](auto& comm) { check_start_of_large_call(comm); }));
    CHECK_NOTHROW(run_threads(ranks, [](auto& comm) { check_closing(comm); }));
  }
}

TEST_CASE("started calls end with an error over loopback") {
  for (int const ranks : {2, 3}) {
    CAPTURE(ranks);
    CHECK_NOTHROW(run_threads(ranks, [](auto& comm) { check_started_mismatch(comm); }));
    CHECK_NOTHROW(run_threads(ranks, [](auto& comm) { check_started_timeout(comm); }));
  }
}
