// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Arrays that are not contiguous, over MPI, on one node and over nodes.
// ranks: 4
// labels: once
// timeout: 200
#include <doctest/doctest.h>

#include "collective/noncontiguous.hpp"
#include "mpi/ranks.hpp"

using namespace tutti;
using namespace tutti::testing;

namespace {

template <class Comm>
void check_with_gaps(Comm& comm) {
  check_calls_with_gaps<strided_array, padded_layers>(comm);
  check_calls_with_gaps<padded_rows, reversed_view>(comm);
  check_messages_with_gaps<strided_array, padded_rows>(comm);
  check_forms_with_gaps(comm);
  check_moves_with_gaps(comm);
}

}  // namespace

TEST_CASE("every collective takes arrays with gaps over MPI") {
  for (int const ranks : {1, 3, 4}) {
    CAPTURE(ranks);
    CHECK(on_ranks(ranks, [](auto& comm) { check_with_gaps(comm); }) == "");
  }
}

TEST_CASE("every algorithm reads and writes arrays with gaps over MPI") {
  CHECK(on_ranks(4, [](auto& comm) {
          check_algorithms_with_gaps<strided_array, padded_rows>(comm);
          check_overlaps_with_gaps(comm);
        }) == "");
}

TEST_CASE("every collective takes arrays with gaps on a node and over nodes") {
  CHECK(on_ranks(3, hierarchical_ranks, [](auto& comm) { check_with_gaps(comm); }) == "");
  CHECK(on_ranks(4, on_nodes_of(2), [](auto& comm) { check_with_gaps(comm); }) == "");
}
