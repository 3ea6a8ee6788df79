// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Gradients through lossy codecs, over loopback and shm.
// labels: processes waits computes
// timeout: 200
#include "training/hooks/error_feedback.hpp"
#include "support/sanitized.hpp"

#include <doctest/doctest.h>

using namespace tutti;
using namespace tutti::testing;

TEST_CASE("lossy codecs lose nothing for good") {
  for (int const ranks : ranks_to_test({1, 2, 3, 4})) {
    CAPTURE(ranks);
    CHECK_NOTHROW(run_threads(ranks, [](auto& comm) { check_error_feedback(comm); }));
  }
  CHECK_NOTHROW(run_local(3, [](auto& comm) { check_error_feedback(comm); }));
}

TEST_CASE("residuals of other parameters are refused") {
  for (int const ranks : {2, 3}) {
    CAPTURE(ranks);
    CHECK_NOTHROW(run_threads(ranks, [](auto& comm) { check_other_residuals(comm); }));
  }
}
