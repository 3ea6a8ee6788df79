// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The function that elastic training tells of other ranks is called while run() runs, and not after that.
// labels: threads
#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "support/expect.hpp"
#include "support/temporary_folder.hpp"
#include "tutti/training/elastic/elastic_loop.hpp"
#include "tutti/tutti.hpp"

using namespace tutti;
using namespace tutti::testing;
using namespace std::chrono_literals;

// Both ranks leave run() by an exception. Then rank 0 makes a call, for which rank 1 is late.
TEST_CASE("nothing is reported when run() has thrown") {
  std::atomic<int> reports = 0, left = 0;
  std::atomic<bool> may_go_on = false;
  run_threads(2, [&](auto& comm) {
    int const rank = comm.rank();
    training::elastic_loop loop(std::move(comm), {.suspect_after = 20ms, .report = [&](auto const&) { ++reports; }});
    int sum = 0;
    bool threw = false;
    try {
      loop.run(
          5, [&](auto&) { return std::vector{training::replicated("sum", sum)}; },
          [](auto&, std::uint64_t step) {
            if (step == 3) throw std::runtime_error("no more data");
          });
    } catch (std::runtime_error const&) {
      threw = true;
    }
    expect(threw, "the exception of a step was lost");
    for (++left; left < 2;) std::this_thread::yield();
    reports = 0;
    if (rank == 1)
      while (!may_go_on) std::this_thread::sleep_for(1ms);
    work call = barrier(async(loop.comm()));
    if (rank == 0) {
      std::this_thread::sleep_for(500ms);
      may_go_on = true;
    }
    call.wait();
  });
  CHECK(reports == 0);
}

TEST_CASE("more ranks than the job has are asked for") {
  run_threads(2, [](auto& comm) {
    training::elastic_loop loop(std::move(comm), {.min_ranks = 8});
    int sum = 0;
    error const e = error_of([&] {
      loop.run(1, [&](auto&) { return std::vector{training::replicated("sum", sum)}; }, [](auto&, std::uint64_t) {});
    });
    expect_error(e, error_code::bad_argument, "elastic training needs 8 ranks, but the job has 2");
  });
}

TEST_CASE("the checkpoint that was loaded is known, and newer ones that are damaged") {
  temporary_folder const at;
  std::string const folder = at.path() / "run";
  auto const train = [&](std::uint64_t steps, std::uint64_t begun_after, std::size_t refused) {
    run_threads(2, [&](auto& comm) {
      training::elastic_loop loop(std::move(comm), {.checkpoint_every = 2, .folder = folder});
      int sum = 0;
      loop.run(
          steps, [&](auto&) { return std::vector{training::replicated("sum", sum)}; },
          [&](auto&, std::uint64_t step) { sum += static_cast<int>(step); });
      training::resumed const& from = loop.restored();
      expect(from.found == (begun_after > 0) && from.step == begun_after, "another checkpoint");
      expect(from.refused.size() == refused, "other damaged checkpoints");
    });
  };
  train(4, 0, 0);
  std::filesystem::path newest;
  for (auto const& one : std::filesystem::directory_iterator(folder)) newest = std::max(newest, one.path());
  std::filesystem::resize_file(newest / "shard-1", 1);
  train(6, 2, 1);
}

// Rank 1 is late in step 2, which a thread of rank 0 reports; what that throws ends the run there, and rank 1 goes on alone.
TEST_CASE("what a report throws is thrown by run() before the next step") {
  std::atomic<bool> has_reported = false;
  run_threads(2, [&](auto& comm) {
    int const rank = comm.rank();
    auto const report = [&](training::transition const& t) {
      if (rank != 0 || t.who.state != training::member_state::suspected) return;
      has_reported = true;
      throw std::runtime_error("the log is full");
    };
    training::elastic_loop loop(std::move(comm), {.suspect_after = 20ms, .report = report});
    int sum = 0;
    std::uint64_t last = 0;
    std::string thrown;
    try {
      loop.run(
          5, [&](auto&) { return std::vector{training::replicated("sum", sum)}; },
          [&](auto&, std::uint64_t step) {
            last = step;
            while (rank == 1 && step == 2 && !has_reported) std::this_thread::sleep_for(1ms);
          });
    } catch (std::runtime_error const& e) {
      thrown = e.what();
    }
    expect(thrown == (rank == 0 ? "the log is full" : ""), "the exception of a report: " + thrown);
    expect(last == (rank == 0 ? 2 : 5), "the last step of rank " + std::to_string(rank) + ": " + std::to_string(last));
  });
}
