// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Gradients in buckets, over loopback.
// labels: threads twin
// timeout: 200
#include "training/data_parallel.hpp"

#include <doctest/doctest.h>

using namespace tutti;
using namespace tutti::testing;

TEST_CASE("gradients in buckets are averaged over loopback") {
  for (int const ranks : {1, 2, 3, 4, 8}) {
    CAPTURE(ranks);
    CHECK_NOTHROW(run_threads(ranks, [](auto& comm) { check_all_steps(comm); }));
    CHECK_NOTHROW(run_threads(ranks, [](auto& comm) { check_same_bits(comm); }));
    CHECK_NOTHROW(run_threads(ranks, [](auto& comm) { check_hooks(comm); }));
    CHECK_NOTHROW(run_threads(ranks, [](auto& comm) { check_adaptive_buckets(comm); }));
    CHECK_NOTHROW(run_threads(ranks, [](auto& comm) { check_broadcast(comm); }));
    CHECK_NOTHROW(run_threads(ranks, [](auto& comm) { check_misuse(comm); }));
    CHECK_NOTHROW(run_threads(ranks, [](auto& comm) { check_stale_gradients(comm); }));
  }
}

TEST_CASE("ranks that train different models are told so over loopback") {
  for (int const ranks : {2, 3, 4}) {
    CAPTURE(ranks);
    CHECK_NOTHROW(run_threads(ranks, [](auto& comm) { check_mismatch(comm); }));
  }
}

TEST_CASE("a step that fails on one rank ends on all over loopback") {
  for (int const ranks : {2, 3}) {
    CAPTURE(ranks);
    for (bool const later : {false, true})
      for (int const concurrent : {1, 2})
        CHECK_NOTHROW(run_threads(ranks, [&](auto& comm) { check_throwing_hook(comm, later, concurrent); }));
    CHECK_NOTHROW(run_threads(ranks, [](auto& comm) { check_exception_in_step(comm); }));
  }
}

TEST_CASE("a rank that leaves during the backward pass is named over loopback") {
  for (int const ranks : {2, 4})
    CHECK_NOTHROW(run_threads(ranks, [](auto& comm) { check_loss(comm, error_code::rank_left, [] {}); }));
}
