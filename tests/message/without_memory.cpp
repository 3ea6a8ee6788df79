// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A rank runs out of memory for a message: it gets the exception, and all others are told at once which rank that is.
// labels: alone processes waits
#include "message/without_memory.hpp"

#include <doctest/doctest.h>

#include <new>
#include <span>
#include <thread>
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
void on_processes(F const& f) {
  CHECK_NOTHROW(run_local(3, [&](auto& comm) { between_agreements(comm, f); }));
}
template <class F>
void on_processes_and_threads(F const& f) {
  on_processes(f);
  CHECK_NOTHROW(run_threads(3, [&](auto& comm) { between_agreements(comm, f); }));
}

char const* const by_name = "rank 1 gave up its messages because of an exception";

}  // namespace

// It comes first: the list of what is in flight in this process must still be empty.
TEST_CASE("a call or message that cannot be started for lack of memory can be started later") {
  CHECK_NOTHROW(run_local(2, [](auto& comm) {
    int const mine = comm.rank() + 1, other = 1 - comm.rank();
    int sum = 0, got = 0;
    auto const start_twice = [&](persistent operation) {
      max_at_once = 0;
      bool const is_short = is_short_of_memory([&] { operation.start(); });
      max_at_once = unlimited;
      expect(is_short && operation.done(), "a start without memory has not failed, or has left something behind");
      operation.start();
      return operation;
    };
    start_twice(all_reduce(prepared(comm), std::span(&mine, 1), std::span(&sum, 1))).wait();
    expect(sum == 3, "a wrong sum");
    persistent received = start_twice(recv(prepared(comm), std::span(&got, 1), other, 1, patient));
    send(comm, mine, other, 1);
    received.wait();
    expect(got == other + 1, "a wrong message");
  }));
}

TEST_CASE("a rank that cannot keep a message says so to all") {
  on_processes_and_threads([](auto& comm) {
    send_what_cannot_be_kept(comm, 8000, 7000, by_name, [](auto& on, auto& to) { recv(on, to, 0, 2, patient); });
  });
}

// Among threads, one that waits as another rank may drive the receive, and has memory.
TEST_CASE("the same where it waits for a receive that it has started") {
  on_processes([](auto& comm) {
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

TEST_CASE("the same for a receive that was prepared") {
  on_processes_and_threads([](auto& comm) {
    int first = 0, second = 0;
    if (comm.rank() == 1) {
      receive_work const listed = irecv(comm, std::span(&first, 1), 0, 1, patient);
      auto next = recv(prepared(comm), std::span(&second, 1), 0, 2, patient);
      max_at_once = 0;
      next.start();
      bool const ended = next.done();
      max_at_once = unlimited;
      expect(ended && listed.done(), "a receive has not ended");
      CHECK_THROWS_AS(next.wait(), std::bad_alloc);
    }
    expect_error(error_of([&] { barrier(comm, patient); }), error_code::rank_left, "out of memory");
  });
}

// Rank 0 lacks memory for the record that a signal asks for while it waits.
TEST_CASE("a wait goes on if there is no memory for a flight record") {
  CHECK_NOTHROW(run_local(2, [](auto& comm) {
    int got = 0;
    send_recv(comm, 1, 1 - comm.rank(), std::span(&got, 1), 1 - comm.rank());
    if (comm.rank() == 0) {
      detail::record_requests.fetch_add(1);
      max_at_once = 0;
      recv(comm, std::span(&got, 1), 1, 0, patient);
      max_at_once = unlimited;
      expect(got == 7, "the message is lost");
    } else {
      while (!comm.engine().notices().awaited(0)) std::this_thread::yield();
      send(comm, 7, 0);
    }
  }));
}
