// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Elastic training whose ranks are killed at chosen places: the others end with the weights of a run without losses.
// labels: processes waits
#include <doctest/doctest.h>

#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "support/expect.hpp"
#include "support/forked_rank.hpp"
#include "support/sanitized.hpp"
#include "support/temporary_folder.hpp"
#include "training/elastic/toy_job.hpp"

using namespace tutti;
using namespace tutti::testing;

namespace {

void check_losses(int ranks, std::vector<toy_kill> const& kills, training::elastic_options const& options = {}) {
  int const lost = static_cast<int>(kills.size());
  toy_job{.ranks = ranks, .kills = kills, .options = [&](int) { return options; }}.check(ranks - lost, lost);
}

bool ended_with(int status, error_code code) {
  return WIFEXITED(status) && WEXITSTATUS(status) == 1 + static_cast<int>(code);
}

}  // namespace

TEST_CASE("the toy has the same bits on any number of ranks") {
  for (int const ranks : ranks_to_test({1, 2, 3, 5})) {
    CAPTURE(ranks);
    check_losses(ranks, {});
  }
}

TEST_CASE("a rank may be lost at every place of a step, rank 0 too") {
  using enum toy_training::place;
  for (int const victim : {0, 1, 2})
    for (auto const at : {begin, computed, summed, end})
      for (std::uint64_t const step : {std::uint64_t{1}, std::uint64_t{7}, toy_steps}) {
        if (sanitized && (victim == 1) != (step == 7)) continue;
        CAPTURE(victim);
        CAPTURE(static_cast<int>(at));
        CAPTURE(step);
        check_losses(3, {{victim, step, at}});
      }
}

TEST_CASE("several ranks are lost one after another, or at once if none guards another") {
  using enum toy_training::place;
  check_losses(5, {{1, 3, computed}, {4, 9, end}});
  check_losses(5, {{0, 5, summed}, {2, 5, summed}});
  check_losses(6, {{0, 2, begin}, {5, 4, begin}, {3, 6, begin}});
}

TEST_CASE("snapshots need not be taken after every step") {
  using enum toy_training::place;
  for (std::uint64_t const step : {std::uint64_t{3}, std::uint64_t{8}, std::uint64_t{16}})
    check_losses(3, {{1, step, summed}}, {.snapshot_every = 5});
}

// Rank 1 is lost when it has completed step 5, and so has rank 0, whose call does not wait for rank 2. That one is about to make the
// call, and finds that a rank is lost.
TEST_CASE("ranks that have completed different steps return to the last one that all have completed") {
  using enum toy_training::place;
  struct counts {
    std::uint64_t value, fifth;  // the state in the end, and how often step 5 was begun
  };
  shared_with_forks<counts> seen(3);
  auto const next = [](std::uint64_t value, std::uint64_t number) { return (value ^ number) * 0x9e3779b97f4a7c15u; };
  std::string const name = toy_job::new_name();
  std::vector<pid_t> processes;
  for (int r = 0; r < 3; ++r)
    processes.push_back(fork_rank(name, r, 3, "60", [&] {
      std::uint64_t value = 1;
      counts& mine = seen[static_cast<std::size_t>(r)];
      training::elastic_loop loop;
      loop.run(
          toy_steps, [&](auto&) { return std::vector{training::replicated("value", value)}; },
          [&](auto& comm, std::uint64_t number) {
            if (number == 5) ++mine.fifth;
            if (number == 5 && r == 2 && comm.size() == 3) std::this_thread::sleep_for(std::chrono::seconds(1));
            std::vector sent{next(value, number)};
            broadcast(comm, sent, 0);
            value = sent[0];
            if (number == 5 && r == 1) ::raise(SIGKILL);
          });
      mine.value = value;
    }));
  std::string const wrong = end_of_ranks(processes, std::chrono::seconds(100),
                                         [](int r, int status) { return r == 1 ? was_killed(status) : status == 0; });
  CHECK_MESSAGE(wrong.empty(), wrong);
  std::uint64_t right = 1;
  for (std::uint64_t number = 1; number <= toy_steps; ++number) right = next(right, number);
  for (std::size_t const r : {0u, 2u}) {
    CHECK(seen[r].value == right);
    CHECK(seen[r].fifth == 2);
  }
}

TEST_CASE("survivors that list other arrays than before are told which") {
  struct mistake {
    char const* text;
    std::vector<training::saved_array> (*arrays)(std::vector<float>& a, std::vector<float>& b,
                                                 std::vector<double>& wide);
  };
  mistake const mistakes[] = {
      {"has array second, replicated, 8 elements of float32, but had array first, replicated, 8 elements of float32",
       [](auto& a, auto& b, auto&) {
         return std::vector{training::replicated("second", b), training::replicated("first", a)};
       }},
      {"has array second, replicated, 8 elements of float64, but had array second, replicated, 8 elements of float32",
       [](auto& a, auto&, auto& wide) {
         return std::vector{training::replicated("first", a), training::replicated("second", wide)};
       }},
      {"has no further array, but had array second, replicated, 8 elements of float32 before",
       [](auto& a, auto&, auto&) { return std::vector{training::replicated("first", a)}; }},
  };
  for (mistake const& one : mistakes) {
    CAPTURE(one.text);
    std::string const name = toy_job::new_name();
    std::vector<pid_t> processes;
    for (int r = 0; r < 3; ++r)
      processes.push_back(fork_rank(name, r, 3, "60", [&] {
        std::vector<float> a(8, 1), b(8, 2);
        std::vector<double> wide(8);
        error const thrown = error_of([&] {
          training::elastic_loop loop;
          loop.run(
              toy_steps,
              [&](auto& comm) {
                if (comm.size() < 3) return one.arrays(a, b, wide);
                return std::vector{training::replicated("first", a), training::replicated("second", b)};
              },
              [&](auto& comm, std::uint64_t number) {
                if (r == 1 && number == 3) ::raise(SIGKILL);
                barrier(comm);
              });
          return 0;
        });
        expect_error(thrown, error_code::bad_argument, one.text);
      }));
    std::string const wrong = end_of_ranks(processes, std::chrono::seconds(100),
                                           [](int r, int status) { return r == 1 ? was_killed(status) : status == 0; });
    CHECK_MESSAGE(wrong.empty(), wrong);
  }
}

TEST_CASE("a rank is lost together with the one that guards its parts") {
  using enum toy_training::place;
  std::vector<toy_kill> const both{{1, 13, begin}, {2, 13, begin}};
  SUBCASE("the ranks return to a checkpoint") {
    temporary_folder const at;
    check_losses(5, both, {.checkpoint_every = 4, .folder = at.path() / "run"});
  }
  auto const check_all_say = [&](training::elastic_options const& options, std::string const& words) {
    toy_job const job{.ranks = 5, .kills = both, .options = [&](int) { return options; }};
    std::string const name = toy_job::new_name();
    std::vector<pid_t> processes;
    for (int r = 0; r < 5; ++r)
      processes.push_back(fork_rank(name, r, 5, "60", [&] {
        toy_end end{};
        error const thrown = error_of([&] { return job.be_process(r, end), 0; });
        expect_error(thrown, error_code::system, "of arrays that are divided are lost");
        expect(contains(thrown, words), thrown.what());
      }));
    std::string const wrong = end_of_ranks(processes, std::chrono::seconds(100), [](int r, int status) {
      return r == 1 || r == 2 ? was_killed(status) : status == 0;
    });
    CHECK_MESSAGE(wrong.empty(), wrong);
  };
  SUBCASE("without a checkpoint, all survivors say what is lost") { check_all_say({}, "; write checkpoints"); }
  SUBCASE("before the first checkpoint, they say that there is none") {
    temporary_folder const at;
    std::string const folder = at.path() / "run";
    check_all_say({.checkpoint_every = 100, .folder = folder}, "there is no checkpoint in " + folder + " yet");
  }
}

TEST_CASE("fewer than half of the ranks give up, unless a smaller number is enough") {
  using enum toy_training::place;
  std::vector<toy_kill> const kills{{0, 4, computed}, {2, 9, computed}, {4, 14, computed}};
  shared_with_forks<toy_end> ends(5);
  std::string const wrong = toy_job{.ranks = 5, .kills = kills}.run(ends.all(), [&](int r, int status) {
    return r % 2 == 0 ? was_killed(status) : ended_with(status, error_code::rank_lost);
  });
  CHECK_MESSAGE(wrong.empty(), wrong);
  check_losses(5, kills, {.min_ranks = 1});
}

TEST_CASE("a rank is lost while a checkpoint is written, and the next run goes on from the newest that is intact") {
  using enum toy_training::place;
  for (int const victim : {0, 2}) {
    CAPTURE(victim);
    temporary_folder const at;
    std::string const folder = at.path() / "run";
    training::elastic_options const options{.checkpoint_every = 5, .folder = folder};
    toy_job job{.ranks = 3, .kills = {{victim, 99, begin}}, .options = [&](int) { return options; }};
    job.prepares = [&](int process, int) {
      if (process != victim) return;
      std::thread([&] {  // waits for the second checkpoint
        std::filesystem::path const shard = folder + "/checkpoint-000002";
        while (!std::filesystem::exists(shard)) std::this_thread::yield();
        ::raise(SIGKILL);
      })
          .detach();
    };
    job.pause = std::chrono::milliseconds(5);
    job.check(2, 1);
    toy_training toy;
    training::elastic_loop again(communicator<shm>(std::make_unique<shm>()), options);
    again.run(
        toy_steps + 5, [&](auto& comm) { return toy.arrays(comm); },
        [&](auto& comm, std::uint64_t number) {
          CHECK(number > toy_steps);
          toy.step(comm, number);
        });
    CHECK(toy.hash() == toy_training::hash_after(toy_steps + 5));
  }
}

TEST_CASE("ranks that are to take different numbers of steps are refused") {
  run_threads(2, [](auto& comm) {
    std::uint64_t const steps = comm.rank() == 0 ? 3 : 5;
    training::elastic_loop loop(std::move(comm));
    int sum = 0;
    expect_error(error_of([&] {
                   loop.run(
                       steps, [&](auto&) { return std::vector{training::replicated("sum", sum)}; },
                       [](auto&, std::uint64_t) {});
                 }),
                 error_code::bad_argument, "run() is to take 5 steps on rank 1, but 3 on rank 0");
  });
}

TEST_CASE("a folder that cannot be used is found before the first step") {
  temporary_folder const at;
  std::string const folder = at.path() / "none/run";
  run_threads(2, [&](auto& comm) {
    training::elastic_loop loop(std::move(comm), {.checkpoint_every = 5, .folder = folder});
    int sum = 0, steps = 0;
    expect_error(error_of([&] {
                   loop.run(
                       3, [&](auto&) { return std::vector{training::replicated("sum", sum)}; },
                       [&](auto&, std::uint64_t) { ++steps; });
                 }),
                 error_code::system, "rank 0: cannot create " + folder);
    expect(steps == 0, "a step was taken");
  });
}

TEST_CASE("arrays of single ranks are refused") {
  training::elastic_loop alone(communicator<shm>(std::make_unique<shm>()));
  std::vector<int> own(3);
  try {
    alone.run(1, [&](auto&) { return std::vector{training::per_rank("own", own)}; }, [](auto&, std::uint64_t) {});
    FAIL_CHECK("nothing was thrown");
  } catch (error const& e) {
    CHECK(e.code() == error_code::bad_argument);
    CHECK(e.happened().find("\"own\" of elastic training is per_rank") != std::string::npos);
  }
}
