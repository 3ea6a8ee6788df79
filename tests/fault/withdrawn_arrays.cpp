// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Ranks that are threads read each other's arrays in place. When a call throws, its rank may free its arrays: no other rank
// reads them any more, even if its operation takes long.
// labels: threads waits
#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "support/expect.hpp"
#include "support/own_pages.hpp"
#include "tutti/tutti.hpp"

using namespace tutti;
using namespace std::chrono_literals;

namespace {

constexpr options in_place{
    .algorithm = algorithm_id::two_shot, .protocol = protocol::direct, .timeout = std::chrono::milliseconds(200)};

// An operation whose first use on one thread takes longer than the others wait.
thread_local bool slow = false;
std::atomic<bool> in_operation = false;
constexpr auto slow_sum = [](float a, float b) {
  if (slow) {
    slow = false;
    in_operation = true;
    std::this_thread::sleep_for(2s);
    in_operation = false;
  }
  return a + b;
};

}  // namespace

TEST_CASE("a rank that has given up waits for a peer's operation on its array") {
  run_threads(2, [](auto& comm) {
    testing::own_pages mine(1 << 18);
    slow = comm.rank() == 1;
    testing::expect_error(testing::error_of([&] { all_reduce(comm, mine.numbers(), slow_sum, in_place); }),
                          error_code::timeout, "did not complete");
    if (comm.rank() == 0) testing::expect(!in_operation, "rank 1 may still read");
    mine.withdraw();
  });
}
