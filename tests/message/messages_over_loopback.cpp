// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Messages between two ranks, over loopback.
// labels: threads twin
// timeout: 200
#include <doctest/doctest.h>

#include <array>
#include <atomic>

#include "message/messages.hpp"
#include "support/sanitized.hpp"

using namespace tutti;
using namespace tutti::detail;
using namespace tutti::testing;

TEST_CASE("messages arrive over loopback") {
  for (int const ranks : message_rank_counts()) {
    CAPTURE(ranks);
    CHECK_NOTHROW(run_threads(ranks, [](auto& comm) { check_messages(comm); }));
  }
  for (int const ranks : ranks_to_test({2, 4})) {
    CAPTURE(ranks);
    CHECK_NOTHROW(run_threads(ranks, [](auto& comm) { check_messages_by_thread(comm); }));
    CHECK_NOTHROW(run_threads(ranks, [](auto& comm) { check_turns(comm); }));
    CHECK_NOTHROW(run_threads(ranks, [](auto& comm) { check_probes_of_threads(comm); }));
  }
}

// Its sender may have given up, and changed the memory that was fetched. Nobody waits in tutti between the send and the fault,
// which would receive the message.
TEST_CASE("a message that is received after a fault does not count") {
  std::atomic<int> stage{0};
  auto const reach = [&](int next) {
    stage = next;
    stage.notify_all();
  };
  CHECK_NOTHROW(run_threads(2, [&](auto& comm) {
    std::array<int, 1> data{comm.rank()};
    if (comm.rank() == 0) {
      stage.wait(0);
      send(comm, data, 1);
      reach(2);
      stage.wait(2);
    } else {
      receive_work incoming = irecv(comm, data, 0);
      reach(1);
      stage.wait(1);
      comm.revoke("enough");
      error const e = error_of([&] { incoming.wait(); });
      reach(3);
      expect_error(e, error_code::revoked, "enough");
    }
  }));
}

TEST_CASE("messages end with an error over loopback") {
  CHECK_NOTHROW(run_threads(1, [](auto& comm) { check_after_mismatch_alone(comm); }));
  for (int const ranks : {2, 3}) {
    CAPTURE(ranks);
    CHECK_NOTHROW(run_threads(ranks, [](auto& comm) { check_unfit_messages(comm); }));
    CHECK_NOTHROW(run_threads(ranks, [](auto& comm) { check_circles(comm); }));
    CHECK_NOTHROW(run_threads(ranks, [](auto& comm) { check_absent_ranks(comm); }));
    CHECK_NOTHROW(run_threads(ranks, [](auto& comm) { check_probes_in_vain(comm); }));
  }
}
