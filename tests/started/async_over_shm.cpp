// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Calls that are started, over shm; and what they say where a rank is killed.
// labels: processes
// timeout: 200
#include <doctest/doctest.h>

#include <chrono>
#include <csignal>
#include <optional>
#include <stdexcept>
#include <thread>
#include <vector>

#include "started/async.hpp"
#include "support/own_pages.hpp"
#include "support/sanitized.hpp"

using namespace tutti;
using namespace tutti::detail;
using namespace tutti::testing;

TEST_CASE("started calls do what blocking ones do over shm") {
  for (int const ranks : ranks_to_test({1, 2, 3, 5, 8})) {
    CAPTURE(ranks);
    CHECK_NOTHROW(run_local(ranks, [](auto& comm) { check_all_started<affine, compose>(comm); }));
  }
  for (int const ranks : ranks_to_test({2, 4})) {
    CAPTURE(ranks);
    CHECK_NOTHROW(run_local(ranks, [](auto& comm) { check_several_communicators(comm); }));
    CHECK_NOTHROW(run_local(ranks, [](auto& comm) { check_lists(comm); }));
    CHECK_NOTHROW(run_local(ranks, [](auto& comm) { check_progress_thread(comm); }));
    CHECK_NOTHROW(run_local(ranks, [](auto& comm) { check_start_of_large_call(comm); }));
    CHECK_NOTHROW(run_local(ranks, [](auto& comm) { check_closing(comm); }));
  }
}

TEST_CASE("started calls end with an error over shm") {
  for (int const ranks : {2, 3}) {
    CAPTURE(ranks);
    CHECK_NOTHROW(run_local(ranks, [](auto& comm) { check_started_mismatch(comm); }));
    CHECK_NOTHROW(run_local(ranks, [](auto& comm) { check_started_timeout(comm); }));
    CHECK_NOTHROW(run_local(ranks, [](auto& comm) { check_unwinding(comm); }));
  }
}

// An exception releases the memory of rank 0 before its communicator learns of it, and rank 1 fetches in between.
TEST_CASE("a rank whose peer has released memory because of an exception names that peer, not the memory") {
  struct pause {
    std::chrono::milliseconds time{};
    ~pause() { std::this_thread::sleep_for(time); }
  };
  auto const run = [](auto& all) {
    if (!all.engine().transport().pulls()) return;  // the system does not let ranks read each other's memory
    bool const thrower = all.rank() == 0;
    try {
      auto comm = of_all(all);
      pause const later{std::chrono::milliseconds(thrower ? 200 : 0)};
      own_pages data(2'000'000);
      if (!thrower) std::this_thread::sleep_for(std::chrono::milliseconds(50));  // its memory is gone by then
      work const started = all_reduce(async(comm), data.numbers(), sum{},
                                      {.algorithm = algorithm_id::two_shot, .protocol = protocol::pull});
      if (thrower) throw std::runtime_error("enough");
      work(started).wait();
      expect(false, "a call of a rank that gave up has ended");
    } catch (error const& e) {
      expect_error(e, error_code::rank_left, "rank 0 gave up");
    } catch (std::runtime_error const&) {
      expect(thrower, "another rank has thrown");
    }
  };
  CHECK_NOTHROW(run_local(2, run));
}

TEST_CASE("a rank that is killed ends the calls that were started, whoever looks") {
  for (bool const thread : {false, true}) {
    auto const run = [&](auto& all) {
      auto comm = of_all(all);
      if (comm.rank() == 1) ::raise(SIGKILL);
      std::vector<int> data(100, 1);
      work sum_of_all = all_reduce(async(comm), data);
      std::optional<progress_thread> moves_calls;
      if (thread) moves_calls.emplace();
      auto const until = deadline::after(std::chrono::seconds(20));
      auto const look = [&] {
        while (!sum_of_all.done() && !until.passed())
          if (thread) std::this_thread::sleep_for(std::chrono::milliseconds(1));
          else sum_of_all.test();
        sum_of_all.wait(std::chrono::seconds(0));
      };
      expect_error(error_of(look), error_code::rank_lost, "rank 1 (process ");
    };
    CHECK_THROWS_WITH_AS(
        run_local(3, run),
        doctest::Contains(
            "tutti: rank 1 was ended by signal 9 (Killed); start with the first, which caused the others"),
        error);
  }
}

TEST_CASE("a rank that leaves by an exception says so to those whose calls it had started") {
  CHECK_THROWS_WITH_AS(run_local(2,
                                 [](auto& comm) {
                                   std::vector<int> data(100, 1);
                                   work sum_of_all;
                                   if (comm.rank() == 1) {
                                     auto closed = std::move(comm);
                                     sum_of_all = all_reduce(async(closed), data);
                                     throw std::runtime_error("rank 1 has had enough");
                                   }
                                   std::this_thread::sleep_for(std::chrono::milliseconds(100));
                                   all_reduce(comm, data);
                                   all_reduce(comm, data);
                                 }),
                       doctest::Contains("enough"), std::exception);
}
