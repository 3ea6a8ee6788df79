// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Policies of sums over loopback: left to right, independent of the order, of the algorithm and of the number of ranks, compensated.
// labels: threads
#include <doctest/doctest.h>

#include <vector>

#include "collective/determinism.hpp"
#include "support/expect.hpp"

using namespace tutti;
using namespace tutti::testing;

TEST_CASE("sums by each policy have the bits of one rank over loopback") {
  for (int const ranks : policy_ranks) {
    CAPTURE(ranks);
    CHECK_NOTHROW(run_threads(ranks, [](auto& comm) { check_policies_of_sums(comm); }));
  }
}

TEST_CASE("an algorithm that sends partial results is refused where the operation combines at once") {
  auto const errors = errors_of(2, [](auto& comm) {
    std::vector<float> data(10);
    all_reduce(comm, data, reproducible_sum{}, {.algorithm = algorithm_id::ring});
  });
  for (error const& e : errors)
    CHECK_NOTHROW(
        expect_error(e, error_code::bad_argument,
                     "ring cannot do all_reduce: it sends partial results, but the operation must combine all"));
}
