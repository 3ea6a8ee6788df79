// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Started calls, over MPI and over nodes.
// ranks: 4
// timeout: 200
#include <doctest/doctest.h>

#include "mpi/ranks.hpp"
#include "started/async.hpp"

using namespace tutti;
using namespace tutti::detail;
using namespace tutti::testing;

TEST_CASE("started calls do what blocking ones do over MPI") {
  for (int const ranks : {1, 2, 3, 4}) {
    CAPTURE(ranks);
    CHECK(on_ranks(ranks, [](auto& comm) { check_all_started<affine, compose>(comm); }) == "");
  }
  for (int const ranks : {2, 4}) {
    CAPTURE(ranks);
    CHECK(on_ranks(ranks, [](auto& comm) { check_several_communicators(comm); }) == "");
    CHECK(on_ranks(ranks, [](auto& comm) { check_lists(comm); }) == "");
    CHECK(on_ranks(ranks, [](auto& comm) { check_closing(comm); }) == "");
  }
}

TEST_CASE("started calls do what blocking ones do on a node") {
  CHECK(on_ranks(3, hierarchical_ranks, [](auto& comm) { check_lists(comm); }) == "");
}

TEST_CASE("what cannot be started over nodes is refused with the reason") {
  CHECK(on_ranks(4, on_nodes_of(2), [](auto& comm) {
          options const in_two_levels{.algorithm = algorithm_id::two_level};
          std::vector<int> ones(3, 1), all(12);
          std::vector<std::size_t> const counts(4, 3);
          expect_error(error_of([&] { return all_reduce(async(comm), ones, sum{}, in_two_levels); }),
                       error_code::bad_argument, "two_level blocks internally, so it cannot run asynchronously");
          expect_error(error_of([&] { return gather_v(async(comm), ones, all, counts, {}, 0, in_two_levels); }),
                       error_code::bad_argument, "two_level cannot do gather: it does not serve the _v form");
        }) == "");
}

TEST_CASE("started calls end with an error over MPI") {
  for (int const ranks : {2, 3}) {
    CAPTURE(ranks);
    CHECK(on_ranks(ranks, [](auto& comm) { check_started_mismatch(comm); }) == "");
    CHECK(on_ranks(ranks, [](auto& comm) { check_started_timeout(comm); }) == "");
  }
}
