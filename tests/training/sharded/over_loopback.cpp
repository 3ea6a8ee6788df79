// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Sharded training, over loopback.
// labels: threads
// timeout: 200
#include "support/sanitized.hpp"
#include "training/sharded/beside_one_process.hpp"

#include <doctest/doctest.h>

using namespace tutti;
using namespace tutti::testing;

TEST_CASE("shards are trained as a whole model over loopback") {
  for (int const ranks : ranks_to_test({1, 2, 3, 4, 8})) {
    CAPTURE(ranks);
    CHECK_NOTHROW(run_threads(ranks, [](auto& comm) { check_all_sharded_bits(comm); }));
    CHECK_NOTHROW(run_threads(ranks, [](auto& comm) { check_reduced_passes(comm); }));
    CHECK_NOTHROW(run_threads(ranks, [](auto& comm) { check_sharded_cast(comm); }));
    CHECK_NOTHROW(run_threads(ranks, [](auto& comm) { check_accumulation_after_a_pass(comm); }));
    CHECK_NOTHROW(run_threads(ranks, [](auto& comm) { check_endless_prefetch(comm); }));
    CHECK_NOTHROW(run_threads(ranks, [](auto& comm) { check_checkpoint<float>(comm); }));
    CHECK_NOTHROW(run_threads(ranks, [](auto& comm) { check_sharded_misuse(comm); }));
    CHECK_NOTHROW(run_threads(ranks, [](auto& comm) { check_norms_of_shards(comm); }));
    CHECK_NOTHROW(run_threads(ranks, [](auto& comm) { check_empty_shards(comm); }));
  }
}

TEST_CASE("parameters of a sharded model may take no part in a step over loopback") {
  for (int const ranks : ranks_to_test({1, 2, 3, 4, 8})) {
    CAPTURE(ranks);
    CHECK_NOTHROW(run_threads(ranks, [](auto& comm) { check_unused_shards(comm); }));
    CHECK_NOTHROW(run_threads(ranks, [](auto& comm) { check_used_shards(comm); }));
  }
}

TEST_CASE("shards of low precision are trained as by one process over loopback") {
  for (int const ranks : ranks_to_test({1, 2, 3, 4, 8})) {
    CAPTURE(ranks);
    CHECK_NOTHROW(run_threads(ranks, [](auto& comm) { check_low_precision<bfloat16>(comm); }));
    CHECK_NOTHROW(run_threads(ranks, [](auto& comm) { check_low_precision<half>(comm); }));
    CHECK_NOTHROW(run_threads(ranks, [](auto& comm) { check_small_steps(comm); }));
  }
}

TEST_CASE("a rank holds the memory of its stage") {
  for (int const ranks : ranks_to_test({1, 2, 3, 8})) {
    CAPTURE(ranks);
    CHECK_NOTHROW(run_threads(ranks, [](auto& comm) { check_memory(comm); }));
    CHECK_NOTHROW(run_threads(ranks, [](auto& comm) { check_deferred<bfloat16>(comm); }));
    CHECK_NOTHROW(run_threads(ranks, [](auto& comm) { check_deferred_misuse(comm); }));
  }
}

TEST_CASE("ranks that shard different models are told so over loopback") {
  for (int const ranks : ranks_to_test({2, 3, 4})) {
    CAPTURE(ranks);
    CHECK_NOTHROW(run_threads(ranks, [](auto& comm) { check_sharded_mismatch(comm); }));
  }
}

TEST_CASE("ranks that gather units in different orders are told so at the end of the step over loopback") {
  for (int const ranks : ranks_to_test({2, 3, 4})) {
    CAPTURE(ranks);
    CHECK_NOTHROW(run_threads(ranks, [](auto& comm) { check_other_gathers(comm); }));
    for (double const other : {0.0, 0.25, -1.0})
      CHECK_NOTHROW(run_threads(ranks, [&](auto& comm) { check_other_scales(comm, other); }));
    CHECK_NOTHROW(run_threads(ranks, [](auto& comm) { check_place_of_gathers(comm); }));
    CHECK_NOTHROW(run_threads(ranks, [](auto& comm) { check_refused_step(comm); }));
  }
}

TEST_CASE("a sharded step that fails on one rank ends on all over loopback") {
  for (int const ranks : {2, 3})
    for (int const stage : {1, 2, 3}) {
      CAPTURE(ranks);
      CAPTURE(stage);
      CHECK_NOTHROW(run_threads(ranks, [&](auto& comm) { check_throwing_sharded_hook(comm, stage); }));
    }
  auto const check_place_with = [](auto const& hook) {
    CHECK_NOTHROW(run_threads(3, [&](auto& comm) { check_place_of_reductions(comm, hook); }));
  };
  check_place_with(training::average_shards{});
  check_place_with(training::cast_to<bfloat16>{});
}

TEST_CASE("a rank that leaves during a sharded step is named over loopback") {
  for (int const ranks : ranks_to_test({2, 4}))
    for (int const stage : {1, 2, 3})
      for (bool const forward : {false, true}) {
        CAPTURE(ranks);
        CAPTURE(stage);
        CAPTURE(forward);
        CHECK_NOTHROW(run_threads(
            ranks, [&](auto& comm) { check_sharded_loss(comm, stage, forward, error_code::rank_left, [] {}); }));
      }
}
