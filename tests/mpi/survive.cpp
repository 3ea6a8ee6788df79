// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// revoke, agree and shrink over MPI, on one node and on several, if the MPI has fault tolerance; the errors if it has
// none; and both through the shared memory of a node.
// ranks: 4
// ulfm: too
#include <doctest/doctest.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>

#include "fault/survive.hpp"
#include "mpi/ranks.hpp"

using namespace tutti;
using namespace tutti::detail;
using namespace tutti::testing;

namespace {

communicator<mpi> flat(MPI_Comm part) { return from_mpi(part); }
communicator<hierarchical> on_pairs(MPI_Comm part) { return on_nodes_of(2)(part); }

bool has_ulfm() {
  world();
  bool const out = mpi_survives();
  if (!out && world().rank() == 0) std::puts("this MPI has no ULFM, or it is off: only the errors are tested");
  return out;
}

}  // namespace

TEST_CASE("a communicator is revoked for all over MPI") {
  CHECK(on_ranks(4, [](auto& comm) {
          error const e = error_of([&] {
            barrier(comm);  // which rank 3 may leave first
            if (comm.rank() == 3) comm.revoke("enough");
            while (true) barrier(comm);
          });
          expect_error(e, error_code::revoked, "rank 3 has revoked the communicator: enough");
        }) == "");
}

TEST_CASE("fault tolerance is there where the launcher was told so, and refused by name elsewhere") {
  bool const on = has_ulfm();
  CHECK((std::getenv("TUTTI_TEST_ULFM") == nullptr || on));
  if (on) return;
  auto const refused = [](auto& comm) {
    expect(!comm.can_shrink(), "ranks can shrink");
    expect_error(error_of([&] { comm.agree(); }), error_code::bad_argument, "cannot agree on the survivors");
    error const e = error_of([&] { static_cast<void>(comm.shrink()); });
    expect_error(e, error_code::bad_argument, "use Open MPI 5 or later and mpirun --with-ft ulfm");
  };
  CHECK(on_ranks(4, refused) == "");
  CHECK(on_ranks(4, on_pairs, refused) == "");
}

TEST_CASE("ranks on one node agree, revoke and shrink through its memory") {
  for (int const ranks : {1, 2, 4}) {
    CHECK(on_ranks(ranks, hierarchical_ranks, [](auto& comm) { check_agree(comm); }) == "");
    CHECK(on_ranks(ranks, hierarchical_ranks, [](auto& comm) { check_revoke(comm); }) == "");
    CHECK(on_ranks(ranks, hierarchical_ranks, [](auto& comm) { check_shrink_to_one(std::move(comm)); }) == "");
  }
}

TEST_CASE("a rank that revokes throws what the others throw, even if these shrink already") {
  CHECK(on_ranks(3, hierarchical_ranks, [](auto& comm) {
          error const e = error_of([&] {
            barrier(comm);           // which rank 2 may leave first
            if (comm.rank() == 2) {  // has told only its node so far
              comm.engine().levels->only_node()->engine().revoke("enough");
              while (!comm.engine().poll_fault()) std::this_thread::yield();
            }
            while (true) barrier(comm);
          });
          expect_error(e, error_code::revoked, "enough");
          expect(e.peer() == 2, "the wrong rank is to blame");
          expect(comm.shrink().size() == 3, "nobody has gone");
        }) == "");
}

TEST_CASE("ranks agree, revoke and shrink over MPI that has fault tolerance") {
  if (!has_ulfm()) return;
  auto const check = [](auto const& make) {
    for (int const ranks : {1, 2, 4}) {
      CAPTURE(ranks);
      CHECK(on_ranks(ranks, make, [](auto& comm) { check_agree(comm); }) == "");
      CHECK(on_ranks(ranks, make, [](auto& comm) { check_revoke(comm); }) == "");
      CHECK(on_ranks(ranks, make, [](auto& comm) { check_shrink_to_one(std::move(comm)); }) == "");
    }
    CHECK(on_ranks(3, make, [](auto& comm) { check_confusion(comm); }) == "");
    ::setenv("TUTTI_TIMEOUT", "2", 1);
    CHECK(on_ranks(3, make, [](auto& comm) { check_late_to_agree(comm); }) == "");
    ::setenv("TUTTI_TIMEOUT", "20", 1);
  };
  check(flat);
  check(on_pairs);
}

TEST_CASE("a rank that is alive cannot be excluded over MPI, and nobody waits for it") {
  auto const refused = [](auto& comm) {
    error const e = error_of([&] { static_cast<void>(comm.shrink({.exclude_after = std::chrono::seconds(1)})); });
    expect_error(e, error_code::bad_argument, "a rank that is alive cannot be excluded from ranks over MPI");
    expect_error(error_of([&] { return comm.agree(0, {.exclude_after = std::chrono::seconds(1)}); }),
                 error_code::bad_argument, "a rank that is alive cannot be excluded from ranks over MPI");
    expect(!comm.can_shrink({.exclude_after = std::chrono::seconds(1)}) && comm.activity().empty(),
           "ranks can be excluded or watched");
    barrier(comm);
  };
  CHECK(on_ranks(2, refused) == "");
  CHECK(on_ranks(2, hierarchical_ranks, refused) == "");
}
