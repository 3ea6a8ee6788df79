// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Training beside one process, over loopback.
// labels: threads twin
// timeout: 300
#include "training/equality/all_training.hpp"

#include <doctest/doctest.h>

using namespace tutti;
using namespace tutti::testing;

TEST_CASE("training equals that of one process over loopback") {
  for (int const ranks : compared_ranks) {
    CAPTURE(ranks);
    CHECK_NOTHROW(run_threads(ranks, [](auto& comm) { check_all_training(comm); }));
  }
}
