// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// all_reduce of many arrays, and batches, over loopback: the results of separate calls, for all bucket sizes, with few
// calls.
// labels: threads twin
#include <doctest/doctest.h>

#include <vector>

#include "collective/coalesced.hpp"
#include "support/sanitized.hpp"

using namespace tutti;
using namespace tutti::detail;
using namespace tutti::testing;

TEST_CASE("many arrays in few calls are summed as each alone over loopback") {
  for (int const ranks : ranks_to_test({1, 2, 3, 5})) {
    CAPTURE(ranks);
    CHECK_NOTHROW(run_threads(ranks, [](auto& comm) { check_lists_of_arrays(comm); }));
  }
}

TEST_CASE("messages and collectives in one batch do what each alone does, in few calls over loopback") {
  for (int const ranks : ranks_to_test({1, 2, 3, 5})) {
    CAPTURE(ranks);
    CHECK_NOTHROW(run_threads(ranks, [](auto& comm) { check_batches(comm); }));
    CHECK_NOTHROW(run_threads(ranks, [](auto& comm) { check_batches_of_columns(comm); }));
    CHECK_NOTHROW(run_threads(ranks, [](auto& comm) { check_batches_in_flight(comm); }));
  }
}

TEST_CASE("lists that differ are a mismatch of a bucket's count") {
  CHECK_NOTHROW(run_threads(2, [](auto& comm) {
    std::vector<std::vector<float>> list(10, std::vector<float>(10, 1));
    if (comm.rank() == 1) list.emplace_back(5);
    expect_error(error_of([&] { all_reduce(comm, list); }), error_code::mismatch, "ranks disagree in call #1: ");
    expect_error(error_of([&] { all_reduce(async(comm), list).wait(); }), error_code::mismatch,
                 "ranks disagree in call #1: ");
    batch all(comm);
    barrier(all);
    expect_error(error_of([&] { all.run(); }), error_code::mismatch, "ranks disagree in call #1: ");
  }));
}
