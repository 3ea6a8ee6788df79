// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Sharded training, over shm.
// labels: processes
// timeout: 200
#include "support/sanitized.hpp"
#include "training/sharded/beside_one_process.hpp"

#include <doctest/doctest.h>

#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstddef>
#include <vector>

using namespace tutti;
using namespace tutti::testing;

namespace {

// In a forked child, no gather can start.
template <class Comm>
void check_failed_start(Comm& comm) {
  std::vector<std::vector<float>> parameters{{1, 2, 3}, {4, 5}};
  training::sharded_data_parallel model(comm, parameters, training::sgd{}, {.stage = 3, .prefetch = 1});
  for (std::size_t turn = 0; turn < 4; ++turn) auto const here = model.gather(turn % 2);  // gathers unit 0 ahead, too
  pid_t const child = ::fork();
  if (child == 0) {
    for (std::size_t const unit : {0u, 1u}) {
      auto const gather = [&] { auto const here = model.gather(unit); };
      if (!contains(error_of([&] { return gather(), 0; }), "uses a communicator of process")) ::_exit(1);
    }
    ::_exit(0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  expect(status == 0, "a child was given parameters that nobody had gathered");
  barrier(comm);
}

}  // namespace

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

TEST_CASE("a unit whose gather could not start is not handed out") {
  for (int const ranks : {1, 2}) CHECK_NOTHROW(run_local(ranks, [](auto& comm) { check_failed_start(comm); }));
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
