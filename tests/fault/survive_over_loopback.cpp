// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// revoke, agree and shrink over loopback.
// labels: threads twin waits
#include <doctest/doctest.h>

#include <cstdint>
#include <cstdlib>

#include "fault/survive.hpp"
#include "support/sanitized.hpp"

using namespace tutti;
using namespace tutti::detail;
using namespace tutti::testing;

TEST_CASE("a communicator is revoked for all over loopback") {
  for (int ranks = 1; ranks <= 8; ++ranks) CHECK_NOTHROW(run_threads(ranks, [](auto& comm) { check_revoke(comm); }));
}

TEST_CASE("ranks agree over loopback") {
  for (int ranks = 1; ranks <= 8; ++ranks) CHECK_NOTHROW(run_threads(ranks, [](auto& comm) { check_agree(comm); }));
}

TEST_CASE("ranks that are left go on over loopback, down to one") {
  for (int repeat = 0; repeat < (sanitized ? 3 : 20); ++repeat)
    for (int const ranks : {1, 2, 5, 8})
      CHECK_NOTHROW(run_threads(ranks, [](auto& comm) { check_shrink_to_one(std::move(comm)); }));
}

TEST_CASE("who waits in subgroup for a rank that votes learns why over loopback") {
  CHECK_NOTHROW(run_threads(3, [](auto& comm) { check_vote_instead_of_group(comm); }));
}

TEST_CASE("a rank that is late by an agreement sees its outcome over loopback") {
  CHECK_NOTHROW(run_threads(2, [](auto& comm) {
    auto& engine = comm.engine();
    if (comm.rank() == 0) {  // as if rank 1 had voted, and then been stopped until the next agreement timed out
      auto votes = engine.transport().votes();
      std::uint64_t const number = engine.agreements + 1;
      votes.propose(number, {resolution::agreed, 6, {}, {}, {}});
      votes.propose(number + 1, {resolution::timed_out, 0, {}, {}, {1}});
    }
    barrier(comm);
    if (comm.rank() == 1) expect(comm.agree(6).flags == 6, "a late rank sees another outcome");
  }));
}

TEST_CASE("who does not come to an agreement is named over loopback") {
  CHECK_NOTHROW(run_threads(3, [](auto& comm) { check_confusion(comm); }));
  ::setenv("TUTTI_TIMEOUT", "2", 1);
  CHECK_NOTHROW(run_threads(3, [](auto& comm) { check_late_to_agree(comm); }));
  ::setenv("TUTTI_TIMEOUT", "20", 1);
}
