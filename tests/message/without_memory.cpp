// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A rank runs out of memory for a message: it gets the exception, and all others are told at once which rank that is.
// labels: alone processes waits
#include "message/without_memory.hpp"

#include <doctest/doctest.h>

#include <new>
#include <utility>
#include <vector>

#include "support/expect.hpp"
#include "tutti/tutti.hpp"

using namespace tutti;
using namespace tutti::testing;

namespace {

// A rank that is still in a barrier, or has no queue of messages yet, would get another error. None may leave before all have been
// told, because that is an error too.
template <class Comm, class F>
void between_agreements(Comm& comm, F const& f) {
  std::vector<int> out(1), in(1);
  send_recv(comm, out, (comm.rank() + 1) % comm.size(), in, (comm.rank() + comm.size() - 1) % comm.size());
  static_cast<void>(comm.agree());
  f(comm);
  static_cast<void>(comm.agree());
}
template <class F>
void on_processes_and_threads(F const& f) {
  CHECK_NOTHROW(run_local(3, [&](auto& comm) { between_agreements(comm, f); }));
  CHECK_NOTHROW(run_threads(3, [&](auto& comm) { between_agreements(comm, f); }));
}

char const* const by_name = "rank 1 gave up its messages because of an exception";

}  // namespace

TEST_CASE("a rank that cannot keep a message says so to all") {
  on_processes_and_threads([](auto& comm) {
    send_what_cannot_be_kept(comm, 8000, 7000, by_name, [](auto& on, auto& to) { recv(on, to, 0, 2, patient); });
  });
}

TEST_CASE("the same where it waits for a receive that it has started") {
  on_processes_and_threads([](auto& comm) {
    send_what_cannot_be_kept(comm, 8000, 7000, by_name,
                             [](auto& on, auto& to) { irecv(on, to, 0, 2, patient).wait(); });
  });
}

TEST_CASE("a rank without any memory says so too") {
  on_processes_and_threads([](auto& comm) {
    send_what_cannot_be_kept(comm, 8000, 0, "out of memory", [](auto& on, auto& to) { recv(on, to, 0, 2, patient); });
  });
}

// The list of messages in flight grows with them.
TEST_CASE("a receive that cannot be listed ends at once, and its memory is not touched later") {
  on_processes_and_threads([](auto& comm) {
    std::vector<int> got(1, 7);
    if (comm.rank() == 1) {
      std::vector<receive_work> all;
      all.reserve(100);
      bool is_short = false;
      for (int i = 0; i < 100 && !is_short; ++i) {
        max_at_once = i < 8 ? unlimited : 600;
        all.push_back(irecv(comm, got, 0, i, patient));
        is_short = all.back().done();
      }
      CHECK_THROWS_AS(all.back().wait(), std::bad_alloc);
      max_at_once = unlimited;
      expect(is_short, "rank 1 lacks no memory");
    }
    expect_error(error_of([&] { barrier(comm, patient); }), error_code::rank_left, by_name);
    expect(got[0] == 7, "memory of a receive was touched after its end");
  });
}
