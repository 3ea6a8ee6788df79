// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Pipelines over loopback.
// labels: threads twin
#include "support/sanitized.hpp"
#include "training/pipeline/pipeline.hpp"

#include <doctest/doctest.h>

using namespace tutti;
using namespace tutti::testing;

TEST_CASE("a pipeline computes what one process does over loopback") {
  for (int const ranks : ranks_to_test({1, 2, 3, 4, 8})) {
    CAPTURE(ranks);
    CHECK_NOTHROW(run_threads(ranks, [](auto& comm) { check_pipelines(comm); }));
    CHECK_NOTHROW(run_threads(ranks, [](auto& comm) { check_pipeline_misuse(comm); }));
  }
  CHECK_NOTHROW(run_threads(3, [](auto& comm) { check_large_activations(comm); }));
  CHECK_NOTHROW(run_threads(4, [](auto& comm) { check_pipelines_of_a_mesh(comm); }));
}

TEST_CASE("ranks that run a batch that others evaluate are told over loopback") {
  for (int const odd : {0, 1, 2}) {
    CAPTURE(odd);
    CHECK_NOTHROW(run_threads(3, [&](auto& comm) { check_mixed_calls(comm, odd); }));
  }
}

TEST_CASE("a stage that fails on one rank ends the batch on all over loopback") {
  for (int const rank : {0, 1, 2}) {
    CAPTURE(rank);
    CHECK_NOTHROW(run_threads(3, [&](auto& comm) { check_throwing_stages(comm, rank); }));
  }
}

TEST_CASE("a rank that leaves a pipeline is named over loopback") {
  for (int const ranks : ranks_to_test({2, 4}))
    CHECK_NOTHROW(run_threads(ranks, [](auto& comm) { check_loss_in_pipeline(comm, error_code::rank_left, [] {}); }));
}
