// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Several elastic loops in one job, one after another or at the same time: a process joins the loop for which it waits.
// labels: processes waits
#include <doctest/doctest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "support/environment.hpp"
#include "support/expect.hpp"
#include "support/forked_rank.hpp"
#include "support/temporary_folder.hpp"
#include "training/elastic/toy_job.hpp"

using namespace tutti;
using namespace tutti::testing;
using namespace std::chrono_literals;

namespace {

constexpr std::uint64_t steps_of_loop = 20;

// Adds what follows from the steps to `sum`. `before(step)` is called in each.
template <class Loop, class Before>
void add_up(Loop& loop, char const* name, std::uint64_t& sum, Before const& before) {
  loop.run(
      steps_of_loop, [&](auto&) { return std::vector{training::replicated(name, sum)}; },
      [&](auto& comm, std::uint64_t number) {
        before(number);
        std::this_thread::sleep_for(20ms);
        sum += all_reduce(comm, comm.is_main() ? number : 0);
      });
}
constexpr std::uint64_t right_sum = steps_of_loop * (steps_of_loop + 1) / 2;

// Ranks 0 to 2, and a process that replaces rank 1, which ends by itself.
template <class Body>
std::vector<pid_t> start_four(Body const& body) {
  std::string const name = toy_job::new_name();
  std::vector<pid_t> out;
  for (int p = 0; p < 4; ++p) {
    int const number = p == 3 ? 1 : p;
    out.push_back(fork_rank(name, number, 3, "60", [&] {
      if (p == 3) ::setenv(detail::join_variable, "1", 1);
      body(p);
    }));
  }
  return out;
}

bool was_turned_away(int status) {
  return WIFEXITED(status) && WEXITSTATUS(status) == 1 + static_cast<int>(error_code::bad_argument);
}

}  // namespace

TEST_CASE("a process that waits to join a loop is turned away when that has ended, not asked to join the next one") {
  auto const processes = start_four([](int p) {
    std::uint64_t first = 0, second = 0;
    training::elastic_loop loop;
    add_up(loop, "first", first, [](std::uint64_t) {});
    training::elastic_loop next(loop.comm().split(0).value());
    add_up(next, "second", second, [&](std::uint64_t number) {
      if (p == 1 && number == 3) ::raise(SIGKILL);
    });
    if (first != right_sum || second != right_sum || next.comm().size() != 2) ::_exit(99);
  });
  std::string const wrong = end_of_ranks(processes, 100s, [](int p, int status) {
    return p == 1 ? was_killed(status) : p == 3 ? was_turned_away(status) : status == 0;
  });
  CHECK_MESSAGE(wrong.empty(), wrong);
}

TEST_CASE("a process that starts when the ranks are in a later loop is turned away, also if nobody can join that") {
  for (bool const lost_before : {false, true}) {
    CAPTURE(lost_before);
    shared_with_forks<std::uint64_t> shared(2);  // the step of the later loop; and whether the process has gone
    std::atomic_ref<std::uint64_t> const later_step(shared[0]), gone(shared[1]);
    auto const train = [&](int p) {
      std::uint64_t first = 0, second = 0;
      training::elastic_loop loop;
      add_up(loop, "first", first, [&](std::uint64_t number) {
        if (p == 1 && number == 3 && lost_before) ::raise(SIGKILL);
      });
      training::elastic_loop next(loop.comm().split(0).value());
      add_up(next, "second", second, [&](std::uint64_t number) {
        if (p == 1 && number == 2) ::raise(SIGKILL);
        if (p == 0) later_step = number;
        for (int i = 0; p == 0 && number >= 3 && gone == 0 && i < 100; ++i) std::this_thread::sleep_for(10ms);
      });
      if (first != right_sum || second != right_sum || next.comm().size() != 2) ::_exit(99);
    };
    auto const processes = start_four([&](int p) {
      if (p != 3) return train(p);
      while (later_step < 3) std::this_thread::sleep_for(1ms);
      error const turned_away = error_of([&] { return train(p), 0; });
      gone = 1;
      throw turned_away;
    });
    std::string const wrong = end_of_ranks(processes, 100s, [](int p, int status) {
      return p == 1 ? was_killed(status) : p == 3 ? was_turned_away(status) : status == 0;
    });
    CHECK_MESSAGE(wrong.empty(), wrong);
  }
}

TEST_CASE("a process that has joined a loop is a rank of the next one") {
  auto const processes = start_four([](int p) {
    std::uint64_t first = 0, second = 0;
    training::elastic_loop loop;
    add_up(loop, "first", first, [&](std::uint64_t number) {
      if (p == 1 && number == 3) ::raise(SIGKILL);
    });
    training::elastic_loop next(loop.comm().split(0).value());
    add_up(next, "second", second, [](std::uint64_t) {});
    if (first != right_sum || second != right_sum || next.comm().size() != 3) ::_exit(99);
    for (training::member const& one : next.members())
      if (one.rank == next.comm().rank() && one.number != (p == 3 ? 1 : p)) ::_exit(98);
  });
  std::string const wrong =
      end_of_ranks(processes, 100s, [](int p, int status) { return p == 1 ? was_killed(status) : status == 0; });
  CHECK_MESSAGE(wrong.empty(), wrong);
}

TEST_CASE("a process joins two loops that run at the same time") {
  auto const processes = start_four([](int p) {
    std::array<std::uint64_t, 2> sums{};
    training::elastic_loop first, second;
    std::thread other([&] { add_up(second, "second", sums[1], [](std::uint64_t) {}); });
    add_up(first, "first", sums[0], [&](std::uint64_t number) {
      if (p == 1 && number == 3) ::raise(SIGKILL);
    });
    other.join();
    if (sums != std::array{right_sum, right_sum} || first.comm().size() != 3 || second.comm().size() != 3) ::_exit(99);
  });
  std::string const wrong =
      end_of_ranks(processes, 100s, [](int p, int status) { return p == 1 ? was_killed(status) : status == 0; });
  CHECK_MESSAGE(wrong.empty(), wrong);
}

TEST_CASE("an elastic loop chooses algorithms as init does: by the table that tutti-tune has written") {
  temporary_folder const configuration;
  std::filesystem::create_directory(configuration.path() / "tutti");
  std::ofstream(configuration.path() / "tutti" / "tuning")
      << detail::tuning_version << "\nmachine nowhere\nrule all_reduce 2-64 any any any binomial_tree automatic 0 0\n";
  environment const place{{"XDG_CONFIG_HOME", configuration.path().string()}};
  std::string const name = toy_job::new_name();
  std::vector<pid_t> ranks;
  for (int r = 0; r < 2; ++r)
    ranks.push_back(fork_rank(name, r, 2, "60", [] {
      ::unsetenv("TUTTI_TUNING");  // which ctest sets
      training::elastic_loop loop;
      auto const said = explain<float>(loop.comm(), collective::all_reduce, 1000);
      expect(said.algorithm == algorithm_id::binomial_tree, said.text);
    }));
  CHECK(end_of_ranks(ranks, 60s, [](int, int status) { return status == 0; }) == "");
}
