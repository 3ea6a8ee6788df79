// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Sharded training, over shm.
// labels: processes
// timeout: 200
#include "support/sanitized.hpp"
#include "training/sharded/beside_one_process.hpp"

#include <doctest/doctest.h>

#include <csignal>
using namespace tutti;
using namespace tutti::testing;

TEST_CASE("shards are trained as a whole model over shm") {
  for (int const ranks : ranks_to_test({1, 2, 3, 4, 8})) {
    CAPTURE(ranks);
    CHECK_NOTHROW(run_local(ranks, [](auto& comm) { check_sharded_adam(comm); }));
    CHECK_NOTHROW(run_local(ranks, [](auto& comm) { check_checkpoint<float>(comm); }));
    CHECK_NOTHROW(run_local(ranks, [](auto& comm) { check_unused_shards(comm); }));
    CHECK_NOTHROW(run_local(ranks, [](auto& comm) { check_low_precision<bfloat16>(comm); }));
    CHECK_NOTHROW(run_local(ranks, [](auto& comm) { check_deferred<float>(comm); }));
    CHECK_NOTHROW(run_local(ranks, [](auto& comm) { check_deferred_misuse(comm); }));
  }
}

TEST_CASE("a rank that dies during a sharded step is named over shm") {
  for (int const ranks : ranks_to_test({2, 4}))
    for (int const stage : {2, 3}) {
      auto const die = [] { ::raise(SIGKILL); };
      error const e = error_of([&] {
        run_local(ranks, [&](auto& comm) { check_sharded_loss(comm, stage, true, error_code::rank_lost, die); });
        return 0;
      });
      CHECK(e.peer() == 1);
      CHECK_MESSAGE(!contains(e, "expected"), e.what());
    }
}
