// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Jobs of processes that run the toy, in which processes are killed, and others join.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "support/forked_rank.hpp"
#include "training/elastic/toy.hpp"

namespace tutti::testing {

inline constexpr std::uint64_t toy_steps = 20;

struct toy_kill {
  int process;  // its index in the job
  std::uint64_t step;
  toy_training::place where;
};

// What a process has in the end.
struct toy_end {
  std::uint64_t hash, step;
  int size, failed;
};

struct toy_job {
  int ranks = 3;
  std::vector<int> newcomers{};  // the numbers of members that further processes replace
  std::vector<toy_kill> kills{};
  toy_kill stops{-1, 0, toy_training::place::begin};  // where a process stops itself, once
  int late = -1;                                      // a process that computes for a second in step 5
  std::function<training::elastic_options(int process)> options = [](int) { return training::elastic_options{}; };
  std::function<void(int process, int times)> prepares = [](int, int) {};           // for the n-th time
  std::function<void(int process, error const&)> fails = [](int, error const&) {};  // in a step
  std::chrono::milliseconds pause{0};                                               // in each step
  std::string timeout = "60";
  std::uint64_t steps = toy_steps;
  std::uint64_t more_steps = 0;      // of newcomers
  std::span<std::uint64_t> begun{};  // where each process notes which step it has begun, if it is not empty

  bool kills_process(int p) const { return std::ranges::count(kills, p, &toy_kill::process) > 0; }

  void be_process(int p, toy_end& end) const {
    toy_training toy;
    int prepared = 0;
    bool was_stopped = false;
    training::elastic_loop loop(options(p));
    loop.run(
        p < ranks ? steps : steps + more_steps,
        [&](auto& comm) {
          prepares(p, ++prepared);
          return toy.arrays(comm);
        },
        [&](auto& comm, std::uint64_t number) {
          if (!begun.empty()) std::atomic_ref(begun[static_cast<std::size_t>(p)]).store(number);
          std::this_thread::sleep_for(late == p && number == 5 ? std::chrono::milliseconds(1000) : pause);
          try {
            toy.step(comm, number, [&](toy_training::place at) {
              for (auto const& k : kills)
                if (k.process == p && k.step == number && k.where == at) ::raise(SIGKILL);
              bool const stop = stops.process == p && stops.step == number && stops.where == at;
              if (stop && !std::exchange(was_stopped, true)) ::raise(SIGSTOP);
            });
          } catch (error const& e) {
            fails(p, e);
            throw;
          }
        });
    int failed = 0;
    for (auto const& one : loop.members()) failed += one.state == training::member_state::failed ? 1 : 0;
    end = {toy.hash(), loop.step(), loop.comm().size(), failed};
  }

  // Forks all processes: the ranks, and then the newcomers.
  std::vector<pid_t> start(std::span<toy_end> ends) const {
    std::string const name = new_name();
    std::vector<pid_t> out;
    for (int p = 0; p < ranks + static_cast<int>(newcomers.size()); ++p) {
      bool const is_new = p >= ranks;
      int const number = is_new ? newcomers[static_cast<std::size_t>(p - ranks)] : p;
      out.push_back(start_process(name, p, number, is_new, ends[static_cast<std::size_t>(p)]));
    }
    return out;
  }
  static std::string new_name() {
    static int number = 0;
    return "elastic-" + std::to_string(::getpid()) + "-" + std::to_string(++number);
  }
  pid_t start_process(std::string const& name, int p, int number, bool is_new, toy_end& end) const {
    return fork_rank(name, number, ranks, timeout, [&] {
      if (is_new) ::setenv(detail::join_variable, std::to_string(number).c_str(), 1);
      be_process(p, end);
    });
  }

  // Runs it. Returns which processes hang, or end otherwise than right(process, status) says.
  template <class Right>
  std::string run(std::span<toy_end> ends, Right const& right) const {
    return end_of_ranks(start(ends), std::chrono::seconds(100), right);
  }

  // Runs it, and checks that all that are not killed end with the weights of a run without losses, in a group of this size.
  void check(int size, int failed) const {
    std::size_t const processes = static_cast<std::size_t>(ranks) + newcomers.size();
    shared_with_forks<toy_end> ends(processes);
    std::string const wrong =
        run(ends.all(), [&](int p, int status) { return kills_process(p) ? was_killed(status) : status == 0; });
    CHECK_MESSAGE(wrong.empty(), wrong);
    for (std::size_t p = 0; p < processes; ++p) {
      if (kills_process(static_cast<int>(p))) continue;
      CAPTURE(p);
      CHECK(ends[p].step == toy_steps);
      CHECK(ends[p].hash == toy_training::hash_after(toy_steps));
      CHECK(ends[p].size == size);
      if (static_cast<int>(p) < ranks) CHECK(ends[p].failed == failed);  // a newcomer may not have seen that
    }
  }
};

}  // namespace tutti::testing
