// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Messages between two ranks, over loopback.
// labels: threads twin
// timeout: 200
#include <doctest/doctest.h>

#include "message/messages.hpp"

using namespace tutti;
using namespace tutti::detail;
using namespace tutti::testing;

TEST_CASE("messages arrive over loopback") {
  for (int const ranks : {1, 2, 3, 4, 5, 8}) {
    CAPTURE(ranks);
    CHECK_NOTHROW(run_threads(ranks, [](auto& comm) { check_messages(comm); }));
  }
  for (int const ranks : {2, 4}) {
    CAPTURE(ranks);
    CHECK_NOTHROW(run_threads(ranks, [](auto& comm) { check_messages_by_thread(comm); }));
  }
}

TEST_CASE("messages end with an error over loopback") {
  CHECK_NOTHROW(run_threads(1, [](auto& comm) { check_after_mismatch_alone(comm); }));
  for (int const ranks : {2, 3}) {
    CAPTURE(ranks);
    CHECK_NOTHROW(run_threads(ranks, [](auto& comm) { check_unfit_messages(comm); }));
    CHECK_NOTHROW(run_threads(ranks, [](auto& comm) { check_circles(comm); }));
    CHECK_NOTHROW(run_threads(ranks, [](auto& comm) { check_absent_ranks(comm); }));
  }
}
