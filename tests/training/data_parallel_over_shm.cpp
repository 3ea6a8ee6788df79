// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Gradients in buckets, over shm.
// labels: processes
// timeout: 200
#include "support/sanitized.hpp"
#include "training/data_parallel.hpp"

#include <doctest/doctest.h>

#include <csignal>
using namespace tutti;
using namespace tutti::testing;

TEST_CASE("gradients in buckets are averaged over shm") {
  for (int const ranks : ranks_to_test({1, 2, 3, 4, 8})) {
    CAPTURE(ranks);
    CHECK_NOTHROW(run_local(ranks, [](auto& comm) { check_all_steps(comm); }));
    CHECK_NOTHROW(run_local(ranks, [](auto& comm) { check_same_bits(comm); }));
    CHECK_NOTHROW(run_local(ranks, [](auto& comm) { check_hooks(comm); }));
    CHECK_NOTHROW(run_local(ranks, [](auto& comm) { check_adaptive_buckets(comm); }));
    CHECK_NOTHROW(run_local(ranks, [](auto& comm) { check_bits_of_adaptive_buckets(comm); }));
    CHECK_NOTHROW(run_local(ranks, [](auto& comm) { check_gradient_norm(comm); }));
    CHECK_NOTHROW(run_local(ranks, [](auto& comm) { check_broadcast(comm); }));
    CHECK_NOTHROW(run_local(ranks, [](auto& comm) { check_misuse(comm); }));
    CHECK_NOTHROW(run_local(ranks, [](auto& comm) { check_stale_gradients(comm); }));
  }
}

TEST_CASE("ranks that train different models are told so over shm") {
  for (int const ranks : ranks_to_test({2, 3, 4})) {
    CAPTURE(ranks);
    CHECK_NOTHROW(run_local(ranks, [](auto& comm) { check_mismatch(comm); }));
  }
}

TEST_CASE("a rank that dies during the backward pass is named over shm") {
  for (int const ranks : ranks_to_test({2, 4})) {
    auto const die = [] { ::raise(SIGKILL); };
    for (int const concurrent : {1, 3})
      for (bool const by_priority : {false, true}) {
        CAPTURE(concurrent);
        CAPTURE(by_priority);
        error const e = error_of([&] {
          run_local(ranks, [&](auto& comm) {
            check_loss(comm, error_code::rank_lost, die, {.concurrent = concurrent, .by_priority = by_priority});
          });
          return 0;
        });
        CHECK(e.peer() == 1);
        CHECK_MESSAGE(!contains(e, "expected"), e.what());
      }
  }
}

TEST_CASE("a rank that dies is named in calls beside the buckets, too") {
  shared_count reduced, found;
  error const e = error_of([&] {
    run_local(3, [&](auto& comm) { check_loss_beside(comm, [] { ::raise(SIGKILL); }, reduced, found); });
    return 0;
  });
  CHECK(e.peer() == 1);
  CHECK_MESSAGE(!contains(e, "expected"), e.what());
}
