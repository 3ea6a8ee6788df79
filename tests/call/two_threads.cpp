// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Two threads of a rank use one communicator at once: a call of the second is refused while the first is in one, in whatever way it is
// made, and the first ends well. Messages of several threads do not disturb each other, or calls.
// labels: processes
#include <doctest/doctest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <deque>
#include <source_location>
#include <string>
#include <thread>
#include <vector>

#include "support/expect.hpp"
#include "tutti/tutti.hpp"

using namespace tutti;
using namespace tutti::testing;

namespace {

// Returns once this rank has begun as many calls, of which the last may be in another thread.
template <class Comm>
void wait_for_call(Comm& comm, std::uint64_t number) {
  while (comm.engine().notices().called(comm.rank()) < number) std::this_thread::yield();
}

// Rank 1 joins the call of the first thread only once rank 0 has told it by a message that all others were refused.
template <class Comm>
void check_second_thread(Comm& comm) {
  std::vector<int> one(1, 1), other(5, 1);
  barrier(comm);
  if (comm.rank() == 1) {
    recv(comm, other, 0);
    all_reduce(comm, one);
    all_reduce(comm, other);
    return;
  }
  std::vector<int> again(5, 1), large(100'000, 1);
  persistent prepared_before = all_reduce(prepared(comm), again);
  std::thread first([&] { all_reduce(comm, one); });
  wait_for_call(comm, 2);
  auto const expect_refused = [&](auto const& call) {
    error const e = error_of(call);
    expect_error(e, error_code::bad_argument, "rank 0 is still in call #2, all_reduce of 1 int with sum");
    expect_error(e, error_code::bad_argument, "which another thread made");
  };
  try {
    expect_refused([&] { all_reduce(comm, other); });
    expect_refused([&] { barrier(comm); });
    expect_refused(
        [&] { all_reduce(comm, large, sum{}, {.protocol = protocol::packet}); });  // which would be refused anyway
    expect_refused([&] { broadcast(comm, other, 0); });
    expect_refused([&] { all_reduce(async(comm), other).wait(); });
    expect_refused([&] {
      prepared_before.start();
      prepared_before.wait();
    });
  } catch (...) {
    send(comm, other, 1);
    first.join();
    throw;
  }
  send(comm, other, 1);
  first.join();
  expect(one[0] == 2, "the sum of the first thread is wrong");
  expect(other == std::vector<int>(5, 1), "a call that was refused has changed its array");
  all_reduce(comm, other);
  expect(other[0] == 2, "the sum after it is wrong");
}

// Both threads copy their arrays, of ones and of sevens, before the second is refused.
template <class Arrays, class Comm>
void check_copies(Comm& comm, Arrays const& ones, Arrays const& sevens, Arrays const& sums) {
  Arrays mine = ones, other = sevens;
  std::vector<int> go(1);
  if (comm.rank() == 1) {
    recv(comm, go, 0);
    all_reduce(comm, mine);
    return;
  }
  std::uint64_t const call = comm.engine().notices().called(0) + 1;
  std::thread first([&] { all_reduce(comm, mine); });
  wait_for_call(comm, call);
  error const e = error_of([&] { all_reduce(comm, other); });
  send(comm, go, 1);
  first.join();
  expect_error(e, error_code::bad_argument, "which another thread made");
  expect(mine == sums, "a call that was refused has changed the arrays of another");
}
template <class Comm>
void check_copies_of_second_thread(Comm& comm) {
  using scattered = std::deque<int>;
  using list = std::vector<std::vector<int>>;
  for (int repeat = 0; repeat < 2; ++repeat) {
    check_copies(comm, scattered(5, 1), scattered(5, 7), scattered(5, 2));
    check_copies(comm, list{{1, 1}, {1}}, list{{7, 7}, {7}}, list{{2, 2}, {2}});
  }
}

// Two threads of rank 0 enter a barrier at the same moment. One is refused, and only then lets rank 1 join the other.
template <class Comm>
void check_simultaneous_threads(Comm& comm) {
  constexpr int rounds = 500;
  std::vector<int> go(1);
  if (comm.rank() == 1) {
    for (int i = 0; i < rounds; ++i) {
      recv(comm, go, 0);
      barrier(comm);
    }
    return;
  }
  std::atomic<int> arrived = 0;
  std::atomic<bool> failed = false;
  std::array<int, 2> refusals{};
  std::array<std::string, 2> wrong;
  auto const run = [&](std::size_t self) {
    for (int i = 0; i < rounds && !failed; ++i) {
      ++arrived;
      while (arrived < 2 * (i + 1) && !failed) {
      }
      error const e = error_of([&] { barrier(comm, {.timeout = std::chrono::seconds(20)}); });
      if (contains(e, "nothing was thrown")) continue;
      ++refusals[self];
      if (e.code() == error_code::bad_argument && contains(e, "another thread")) {
        send(comm, go, 1);
      } else {
        wrong[self] = e.what();
        failed = true;
      }
    }
  };
  std::thread other([&] { run(1); });
  run(0);
  other.join();
  expect(wrong[0].empty() && wrong[1].empty(), wrong[0] + wrong[1]);
  expect(refusals[0] + refusals[1] == rounds, "not one of two threads was refused each time");
}

// Only calls on arrays with gaps use memory that calls share.
template <class Comm>
void check_second_thread_alone(Comm& comm) {
  std::vector<int> plain(4, 1), gaps(8, 1);
  auto const column = strided(gaps.data(), 4, 2);
  persistent prepared_before = all_reduce(prepared(comm), column);
  auto const expect_refused = [&](auto const& call) {
    expect_error(error_of(call), error_code::bad_argument, "another thread of rank 0 is in a call");
  };
  comm.engine().enter(std::source_location::current());  // as a first thread
  expect_refused([&] { all_reduce(comm, column); });
  expect_refused([&] { all_reduce(async(comm), column).wait(); });
  expect_refused([&] {
    prepared_before.start();
    prepared_before.wait();
  });
  all_reduce(comm, plain);
  barrier(comm);
  comm.engine().leave();
  for (int i = 0; i < 2; ++i) all_reduce(comm, column);
}

// Each thread of rank 1 waits for a message of its own while a third one is in a call. Rank 0 sends in the other order, and comes last.
template <class Comm>
void check_messages_of_threads(Comm& comm) {
  constexpr int threads = 3;
  for (std::size_t const count : {1U, 3000U, 100'000U}) {
    std::vector<int> sum(count, 1);
    std::vector<std::vector<int>> messages(threads, std::vector<int>(count, 0));
    if (comm.rank() == 0) {
      for (int t = threads; t-- > 0;) {
        std::vector<int> const mine(count, t + 10);
        send(comm, mine, 1, t);
      }
      all_reduce(comm, sum);
    } else {
      std::vector<std::thread> all;
      for (int t = 0; t < threads; ++t)
        all.emplace_back([&, t] { recv(comm, messages[static_cast<std::size_t>(t)], 0, t); });
      all_reduce(comm, sum);
      for (std::thread& t : all) t.join();
      for (int t = 0; t < threads; ++t)
        expect(messages[static_cast<std::size_t>(t)] == std::vector<int>(count, t + 10),
               "a thread has the message of another");
    }
    expect(sum == std::vector<int>(count, 2), "the sum beside messages is wrong");
  }
}

}  // namespace

TEST_CASE("a call of a second thread is refused while the first is in one") {
  CHECK_NOTHROW(run_local(2, [](auto& comm) { check_second_thread(comm); }));
  CHECK_NOTHROW(run_threads(2, [](auto& comm) { check_second_thread(comm); }));
}

TEST_CASE("with one rank, a call of a second thread is refused if its arrays have gaps") {
  CHECK_NOTHROW(run_local(1, [](auto& comm) { check_second_thread_alone(comm); }));
  CHECK_NOTHROW(run_threads(1, [](auto& comm) { check_second_thread_alone(comm); }));
}

TEST_CASE("copies of a second thread do not change those of the first") {
  CHECK_NOTHROW(run_local(2, [](auto& comm) { check_copies_of_second_thread(comm); }));
  CHECK_NOTHROW(run_threads(2, [](auto& comm) { check_copies_of_second_thread(comm); }));
}

TEST_CASE("with TUTTI_CHECK=threads, of two threads that enter a call at the same moment one is refused") {
  ::setenv("TUTTI_CHECK", "threads", 1);
  CHECK_NOTHROW(run_local(2, [](auto& comm) { check_simultaneous_threads(comm); }));
  ::setenv("TUTTI_CHECK", "buffers,threads", 1);
  CHECK_NOTHROW(run_threads(2, [](auto& comm) { check_simultaneous_threads(comm); }));
  ::unsetenv("TUTTI_CHECK");
}

TEST_CASE("messages of several threads of a rank arrive where they were asked for, beside a call") {
  CHECK_NOTHROW(run_local(2, [](auto& comm) { check_messages_of_threads(comm); }));
  CHECK_NOTHROW(run_threads(2, [](auto& comm) { check_messages_of_threads(comm); }));
}
