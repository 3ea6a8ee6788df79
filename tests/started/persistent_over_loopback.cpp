// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Calls and messages that are prepared, over loopback.
// labels: threads twin
// timeout: 200
#include <doctest/doctest.h>

#include "started/persistent.hpp"
#include "support/sanitized.hpp"

using namespace tutti;
using namespace tutti::detail;
using namespace tutti::testing;

TEST_CASE("every start of a prepared call does what one that is made once does over loopback") {
  for (int const ranks : ranks_to_test({1, 2, 3, 5})) {
    CAPTURE(ranks);
    CHECK_NOTHROW(run_threads(ranks, [](auto& comm) { check_all_prepared<affine, compose>(comm); }));
    CHECK_NOTHROW(run_threads(ranks, [](auto& comm) { check_prepared_messages(comm); }));
    CHECK_NOTHROW(run_threads(ranks, [](auto& comm) { check_prepared_wrong(comm); }));
    CHECK_NOTHROW(run_threads(ranks, [](auto& comm) { check_outlived(comm); }));
    CHECK_NOTHROW(run_threads(ranks, [](auto& comm) { check_moved_along(comm); }));
  }
  for (int const ranks : {2, 3}) {
    CAPTURE(ranks);
    CHECK_NOTHROW(run_threads(ranks, [](auto& comm) { check_prepared_fault(comm); }));
  }
}
