// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// all_reduce of many arrays, and batches, over shm: the results of separate calls, for all bucket sizes, with few
// calls.
// labels: processes
#include <doctest/doctest.h>

#include <cstdlib>
#include <new>
#include <vector>

#include "collective/coalesced.hpp"
#include "support/sanitized.hpp"

using namespace tutti;
using namespace tutti::detail;
using namespace tutti::testing;

TEST_CASE("many arrays in few calls are summed as each alone over shm") {
  for (int const ranks : ranks_to_test({1, 2, 3, 5})) {
    CAPTURE(ranks);
    CHECK_NOTHROW(run_local(ranks, [](auto& comm) { check_lists_of_arrays(comm); }));
  }
}

TEST_CASE("a batch that has lacked memory at its first start is complete at the next") {
  ::setenv("TUTTI_HEAP", "262144", 1);
  CHECK_NOTHROW(run_local(2, [](auto& comm) {
    std::vector<std::vector<float>> arrays(6, std::vector<float>(512, 1.0f));
    batch all(comm, {.bucket_bytes = 4096});  // two arrays to a bucket, of a page
    for (auto& a : arrays) all_reduce(all, a);
    std::vector<shared_array<float, shm>> pages;
    try {
      while (true) pages.push_back(comm.template allocate<float>(1024));
    } catch (std::bad_alloc const&) {
    }
    pages.pop_back();  // room for one bucket of three
    bool refused = false;
    try {
      all.start().wait();
    } catch (std::bad_alloc const&) {
      refused = true;
    }
    expect(refused, "there was memory for every bucket");
    pages.clear();
    all.start().wait();
    for (auto const& a : arrays) expect(a == std::vector(512, 2.0f), "an array was left out");
  }));
  ::unsetenv("TUTTI_HEAP");
}

TEST_CASE("messages and collectives in one batch do what each alone does, in few calls over shm") {
  for (int const ranks : ranks_to_test({1, 2, 3, 5})) {
    CAPTURE(ranks);
    CHECK_NOTHROW(run_local(ranks, [](auto& comm) { check_batches(comm); }));
    CHECK_NOTHROW(run_local(ranks, [](auto& comm) { check_batches_of_columns(comm); }));
    CHECK_NOTHROW(run_local(ranks, [](auto& comm) { check_batches_in_flight(comm); }));
  }
}
