// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Pipelines over shm.
// labels: processes
#include "support/sanitized.hpp"
#include "training/pipeline/pipeline.hpp"

#include <doctest/doctest.h>

#include <csignal>

using namespace tutti;
using namespace tutti::testing;

TEST_CASE("a pipeline computes what one process does over shm") {
  for (int const ranks : ranks_to_test({1, 2, 3, 4, 8})) {
    CAPTURE(ranks);
    CHECK_NOTHROW(run_local(ranks, [](auto& comm) { check_pipelines(comm); }));
    CHECK_NOTHROW(run_local(ranks, [](auto& comm) { check_pipeline_misuse(comm); }));
  }
  for (int const ranks : {1, 3}) CHECK_NOTHROW(run_local(ranks, [](auto& comm) { check_large_activations(comm); }));
  CHECK_NOTHROW(run_local(4, [](auto& comm) { check_pipelines_of_a_mesh(comm); }));
}

TEST_CASE("ranks that run a batch that others evaluate are told over shm") {
  for (int const odd : {0, 1, 2}) {
    CAPTURE(odd);
    CHECK_NOTHROW(run_local(3, [&](auto& comm) { check_mixed_calls(comm, odd); }));
  }
}

TEST_CASE("a stage that fails on one rank ends the batch on all over shm") {
  for (int const rank : {0, 1, 2}) {
    CAPTURE(rank);
    CHECK_NOTHROW(run_local(3, [&](auto& comm) { check_throwing_stages(comm, rank); }));
  }
}

TEST_CASE("a rank that dies in a pipeline is named over shm") {
  for (int const ranks : ranks_to_test({2, 4})) {
    auto const die = [] { ::raise(SIGKILL); };
    error const e = error_of([&] {
      run_local(ranks, [&](auto& comm) { check_loss_in_pipeline(comm, error_code::rank_lost, die); });
      return 0;
    });
    CHECK(e.peer() == 1);
    CHECK_MESSAGE(!contains(e, "expected"), e.what());
  }
}
