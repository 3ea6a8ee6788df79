// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// revoke over MPI, and agree and shrink on the node of all ranks; over MPI alone these are refused.
// ranks: 4
#include <doctest/doctest.h>

#include <string>

#include "collective/survive.hpp"
#include "mpi/ranks.hpp"

using namespace tutti;
using namespace tutti::testing;

TEST_CASE("a communicator is revoked for all over MPI, and cannot shrink") {
  CHECK(on_ranks(4, [](auto& comm) {
          barrier(comm);
          expect_error(error_of([&] { comm.agree(); }), error_code::bad_argument, "this MPI has no fault tolerance");
          if (comm.rank() == 3) comm.revoke("enough");
          error const e = error_of([&] {
            while (true) barrier(comm);
          });
          expect_error(e, error_code::revoked, "rank 3 has revoked the communicator: enough");
          expect_error(error_of([&] { comm.shrink(); }), error_code::bad_argument, "this MPI has no fault tolerance");
        }) == "");
}

TEST_CASE("ranks on one node agree, revoke and shrink through its memory") {
  auto const hierarchical_ranks = [](MPI_Comm part) { return from_mpi<hierarchical>(part); };
  for (int const ranks : {1, 2, 4}) {
    CHECK(on_ranks(ranks, hierarchical_ranks, [](auto& comm) { check_agree(comm); }) == "");
    CHECK(on_ranks(ranks, hierarchical_ranks, [](auto& comm) { check_revoke(comm); }) == "");
  }
}
