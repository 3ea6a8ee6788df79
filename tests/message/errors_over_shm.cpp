// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Messages that do not fit, wait in a circle, or whose other rank does not come, over shm.
// labels: processes waits
#include <doctest/doctest.h>

#include "message/messages.hpp"

using namespace tutti;
using namespace tutti::detail;
using namespace tutti::testing;

TEST_CASE("messages end with an error over shm") {
  for (int const ranks : {2, 3}) {
    CAPTURE(ranks);
    CHECK_NOTHROW(run_local(ranks, [](auto& comm) { check_unfit_messages(comm); }));
    CHECK_NOTHROW(run_local(ranks, [](auto& comm) { check_circles(comm); }));
    CHECK_NOTHROW(run_local(ranks, [](auto& comm) { check_circle_of_one(comm); }));
    CHECK_NOTHROW(run_local(ranks, [](auto& comm) { check_other_tags(comm); }));
    CHECK_NOTHROW(run_local(ranks, [](auto& comm) { check_absent_ranks(comm); }));
    CHECK_NOTHROW(run_local(ranks, [](auto& comm) { check_probes_in_vain(comm); }));
  }
  CHECK_NOTHROW(run_local(1, [](auto& comm) { check_lone_receive(comm); }));
  for (int const ranks : {1, 3}) CHECK_NOTHROW(run_local(ranks, [](auto& comm) { check_receives_at_end(comm); }));
  for (int const ranks : {1, 3}) CHECK_NOTHROW(run_local(ranks, [](auto& comm) { check_sends_at_end(comm); }));
}
