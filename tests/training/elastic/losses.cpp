// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Elastic training whose ranks are killed at chosen places: the others end with the weights of a run without losses.
// labels: processes waits
#include <doctest/doctest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "support/expect.hpp"
#include "support/forked_rank.hpp"
#include "support/temporary_folder.hpp"
#include "training/elastic/toy.hpp"

using namespace tutti;
using namespace tutti::testing;
using namespace std::chrono_literals;

namespace {

constexpr std::uint64_t toy_steps = 20;

struct toy_kill {
  int rank;
  std::uint64_t step;
  toy_training::place where;
};

struct toy_end {
  std::uint64_t hash, step;
  int size, failed;
};

std::string new_job() {
  static int number = 0;
  return "elastic-" + std::to_string(::getpid()) + "-" + std::to_string(++number);
}

// Runs the toy on some ranks; those of `kills` end at their places. Returns what is wrong.
template <class Options>
std::string run_toy(int ranks, std::span<toy_kill const> kills, std::span<toy_end> ends, Options const& options_of,
                    std::function<bool(int, int)> const& right) {
  std::string const job = new_job();
  std::vector<pid_t> processes;
  for (int r = 0; r < ranks; ++r)
    processes.push_back(fork_rank(job, r, ranks, "60", [&] {
      toy_training toy;
      training::elastic_options options = options_of(r);
      training::elastic_loop loop(init(), options);
      loop.run(
          toy_steps, [&](auto& comm) { return toy.arrays(comm); },
          [&](auto& comm, std::uint64_t number) {
            toy.step(comm, number, [&](toy_training::place at) {
              for (auto const& k : kills)
                if (k.rank == r && k.step == number && k.where == at) ::raise(SIGKILL);
            });
          });
      int failed = 0;
      for (auto const& one : loop.members()) failed += one.state == training::member_state::failed ? 1 : 0;
      ends[static_cast<std::size_t>(r)] = {toy.hash(), loop.step(), loop.comm().size(), failed};
    }));
  return end_of_ranks(processes, 100s, right);
}

// Runs the toy, and checks that all but those of `kills` end with the right weights.
template <class Options>
void check_toy(int ranks, std::vector<toy_kill> const& kills, Options const& options_of) {
  shared_with_forks<toy_end> ends(static_cast<std::size_t>(ranks));
  auto const killed = [&](int r) { return std::ranges::count(kills, r, &toy_kill::rank) > 0; };
  std::string const wrong = run_toy(ranks, kills, ends.all(), options_of,
                                    [&](int r, int status) { return killed(r) ? was_killed(status) : status == 0; });
  CHECK_MESSAGE(wrong.empty(), wrong);
  int const lost = static_cast<int>(kills.size());
  for (int r = 0; r < ranks; ++r) {
    CAPTURE(r);
    toy_end const& end = ends[static_cast<std::size_t>(r)];
    if (killed(r)) continue;
    CHECK(end.step == toy_steps);
    CHECK(end.hash == toy_training::hash_after(toy_steps));
    CHECK(end.size == ranks - lost);
    CHECK(end.failed == lost);
  }
}

training::elastic_options toy_defaults(int) { return {}; }

}  // namespace

TEST_CASE("the toy has the same bits on any number of ranks") {
  for (int const ranks : {1, 2, 3, 5}) {
    CAPTURE(ranks);
    check_toy(ranks, {}, toy_defaults);
  }
}

TEST_CASE("a rank may be lost at every place of a step, rank 0 too") {
  using enum toy_training::place;
  for (int const victim : {0, 1, 2})
    for (auto const at : {begin, computed, summed, end})
      for (std::uint64_t const step : {std::uint64_t{1}, std::uint64_t{7}, toy_steps}) {
        CAPTURE(victim);
        CAPTURE(static_cast<int>(at));
        CAPTURE(step);
        check_toy(3, {{victim, step, at}}, toy_defaults);
      }
}

TEST_CASE("several ranks are lost one after another, or at once if none guards another") {
  using enum toy_training::place;
  check_toy(5, {{1, 3, computed}, {4, 9, end}}, toy_defaults);
  check_toy(5, {{0, 5, summed}, {2, 5, summed}}, toy_defaults);
  check_toy(6, {{0, 2, begin}, {5, 4, begin}, {3, 6, begin}}, toy_defaults);
}

TEST_CASE("snapshots need not be taken after every step") {
  using enum toy_training::place;
  for (std::uint64_t const step : {std::uint64_t{3}, std::uint64_t{8}, std::uint64_t{16}})
    check_toy(3, {{1, step, summed}}, [](int) { return training::elastic_options{.snapshot_every = 5}; });
}

TEST_CASE("a rank is lost together with the one that guards its parts") {
  using enum toy_training::place;
  std::vector<toy_kill> const both{{1, 13, begin}, {2, 13, begin}};
  SUBCASE("the ranks return to a checkpoint") {
    temporary_folder const at;
    check_toy(5, both,
              [&](int) { return training::elastic_options{.checkpoint_every = 4, .folder = at.path() / "run"}; });
  }
  SUBCASE("without a checkpoint, all survivors say what is lost") {
    shared_with_forks<toy_end> ends(5);
    std::string const wrong = run_toy(5, both, ends.all(), toy_defaults, [&](int r, int status) {
      return r == 1 || r == 2 ? was_killed(status)
                              : WIFEXITED(status) && WEXITSTATUS(status) == 1 + static_cast<int>(error_code::system);
    });
    CHECK_MESSAGE(wrong.empty(), wrong);
  }
}
