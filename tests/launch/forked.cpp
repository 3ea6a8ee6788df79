// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A process that a rank forks inherits its communicator, and can neither use it nor disturb it when it ends.
// labels: processes
#include <doctest/doctest.h>

#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "support/expect.hpp"
#include "tutti/tutti.hpp"

using namespace tutti;
using namespace tutti::testing;

namespace {

constexpr int message = 1, started_here = 2;

// In the child.
void expect_refusals(communicator<shm>& comm, work& started, receive_work& incoming) {
  std::vector<int> data(10);
  auto const refused = [&](std::string const& what, auto const& call) {
    error const e = error_of(call);
    expect(e.code() == error_code::bad_argument &&
               e.happened().find(" uses a communicator of process ") != std::string::npos,
           what + " in a child: " + e.what());
  };
  refused("all_reduce", [&] { all_reduce(comm, data); });
  refused("async all_reduce", [&] { static_cast<void>(all_reduce(async(comm), data)); });
  refused("send", [&] { send(comm, data, 1 - comm.rank()); });
  refused("isend", [&] { static_cast<void>(isend(comm, data, 1 - comm.rank())); });
  refused("a started call's wait", [&] { started.wait(); });
  refused("a receive's wait", [&] { incoming.wait(); });
  refused("split", [&] { static_cast<void>(comm.split(0)); });
  refused("subgroup", [&] { static_cast<void>(comm.subgroup({comm.rank()})); });
  refused("agree", [&] { static_cast<void>(comm.agree()); });
  refused("shrink", [&] { static_cast<void>(comm.shrink()); });
  refused("revoke", [&] { comm.revoke("a child"); });
  refused("allocate", [&] { static_cast<void>(comm.allocate<int>(10)); });
  expect(!started.test() && !incoming.test(), "a child drives nothing");
  // Waits drive all that was started in the process. Meanwhile the other rank sends what the parent awaits.
  run_threads(2, [](auto& own) {
    for (auto const until = detail::deadline::after(std::chrono::milliseconds(300));
         own.agree(until.passed() ? 0 : 1).flags;) {
      std::vector<int> sums(1000, 1);
      if (own.rank() == 1) std::this_thread::sleep_for(std::chrono::milliseconds(5));  // so that rank 0 waits
      all_reduce(async(own), sums).wait();
      expect(sums == std::vector<int>(1000, 2), "a child can have ranks of its own");
    }
  });
  expect(!started.done() && !incoming.done(), "and they drive nothing of its parent's");
}

}  // namespace

TEST_CASE("a forked child cannot use its parent's communicator, and ends without a trace in it") {
  for (bool const has_thread : {false, true}) {
    CAPTURE(has_thread);
    CHECK_NOTHROW(run_local(2, [&](communicator<shm>& comm) {
      std::optional<progress_thread> thread;
      if (has_thread) thread.emplace();
      int const other = 1 - comm.rank();
      std::vector<int> data(1000, comm.rank() + 1), in(1000), out(1000, comm.rank());
      shared_array const shared = comm.allocate<int>(100000);
      shared[99999] = 7;
      work started;
      receive_work incoming;
      auto const start = [&] {
        started = all_reduce(async(comm), data);
        incoming = irecv(comm, in, other, message);
      };
      if (comm.rank() == 0) {
        start();  // rank 1 does so later, so both are in flight
        send(comm, out, other, started_here);
        pid_t const child = ::fork();
        if (child == 0) {
          expect(!has_progress_thread(comm), "the thread is its parent's");
          return expect_refusals(comm, started, incoming);
        }
        int status = -1;
        expect(::waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0,
               "the child ends in order");
      } else {
        recv(comm, in, other, started_here);
        std::this_thread::sleep_for(std::chrono::milliseconds(100));
        start();
      }
      send(comm, out, other, message);
      started.wait();
      expect(data == std::vector<int>(1000, 3), "the call that was in flight has its result");
      expect(incoming.get().source == other && in == std::vector<int>(1000, other), "so has the message");
      barrier(comm);
      expect(shared[99999] == 7, "memory that the child knew is the rank's");
    }));
  }
}
