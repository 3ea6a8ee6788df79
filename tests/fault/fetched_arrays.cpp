// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Ranks that are processes fetch each other's arrays. A rank whose call throws may change its array while a peer still fetches
// from it, so the peer's call ends with the same error, and not with what it has fetched.
// labels: processes waits
#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "support/expect.hpp"
#include "support/forked_rank.hpp"
#include "tutti/tutti.hpp"

using namespace tutti;
using namespace tutti::testing;
using namespace std::chrono_literals;

namespace {

struct stage_of_change {
  std::atomic<bool> combining, changed;
};

bool becomes(std::atomic<bool> const& flag) {
  for (auto const until = detail::deadline::after(20s); !flag; std::this_thread::sleep_for(1ms))
    if (until.passed()) return false;
  return true;
}

}  // namespace

TEST_CASE("a call that ends after a fault does not count, because a peer may have changed what was fetched") {
  shared_with_forks<stage_of_change> const stages;
  stage_of_change& stage = stages[0];
  CHECK_NOTHROW(run_local(2, [&](auto& comm) {
    if (!comm.engine().transport().pulls()) return;  // the system does not let ranks read each other's memory
    std::vector<float> data(4000, 1);
    // Rank 1 stays in its first operation until rank 0, whose time is up, has changed its array.
    bool first = comm.rank() == 1;
    auto const slow_sum = commutative([&](float a, float b) {
      if (first) {
        first = false;
        stage.combining = true;
        expect(becomes(stage.changed), "rank 0 has not given up");
      }
      return a + b;
    });
    auto const timeout = comm.rank() == 0 ? 300ms : 60s;
    error const e = error_of([&] {
      reduce(comm, data, slow_sum, 1,
             {.algorithm = algorithm_id::one_shot, .protocol = protocol::pull, .timeout = timeout});
      if (comm.rank() == 1) return;
      expect(becomes(stage.combining), "rank 1 has not come");
      barrier(comm, {.timeout = timeout});
    });
    if (comm.rank() == 0) {
      data.assign(data.size(), 7);
      stage.changed = true;
    }
    expect_error(e, error_code::timeout, "did not complete");
  }));
}
