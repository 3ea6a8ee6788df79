// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// How processes that replace lost ranks join elastic training.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <source_location>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tutti/call/communicator.hpp"
#include "tutti/launch/grow.hpp"
#include "tutti/training/elastic/elastic_options.hpp"
#include "tutti/training/elastic/roster.hpp"
#include "tutti/transport/shared_memory/shm.hpp"

namespace tutti::detail {

// The doors and meetings of the n-th loop of a job that can grow have names of their own, so processes that wait to join one loop
// are not asked by another. All ranks, and processes that join, make their loops in the same order. Those that wait for a loop that
// has ended are turned away: at its end, and by later loops, which look for them from time to time.
[[gnu::cold]] std::string name_of_loop(std::string const& job, int n);

// A process that is to join makes a join_request, its door. After a step, rank 0 looks whether there are any; if so, all ranks
// grow: the larger communicator replaces theirs, or else they go on as they were, and those that wait may be asked again. Only
// shared memory can grow.
class growth {
 public:
  // Both outlive this.
  growth(training::elastic_options const& options, roster& members) : options_(options), roster_(members) {}
  growth(growth const&) = delete;
  growth& operator=(growth const&) = delete;
  [[gnu::cold]] ~growth() { note_run(false); }

  // This process is one of these ranks. Others may join them if they are all that a launcher has started.
  // Throws error: bad_argument if this process is to join others, and has not done so in an earlier loop.
  [[gnu::cold]] void begin_as_rank(elastic_job const& job, int rank, int ranks, std::string_view transport,
                                   bool shares_memory);
  // This process is to join others. Throws error: bad_argument if nobody would ask it.
  [[gnu::cold]] void begin_as_newcomer(elastic_job const& job);

  int number() const { return number_; }  // of this member
  bool is_new() const { return is_new_; }

  // -- Ranks.

  // run() begins, or has ended with all steps completed.
  void begin_run() { note_run(true); }
  [[gnu::cold]] void end_run(bool is_main);

  // On rank 0: those that wait. `present`: the numbers of the members. Looks from time to time only, and never waits.
  [[gnu::cold]] newcomers find(std::span<int const> present);

  struct attempt {
    std::vector<int> numbers{};  // of the newcomers
    grown result{};
    std::chrono::steady_clock::time_point began = std::chrono::steady_clock::now();
  };
  // Collective: meets `count` newcomers, which rank 0 has found.
  [[gnu::cold]] attempt meet(communicator<shm>& comm, newcomers const& found, std::size_t count,
                             grow_options const& options, std::source_location where);
  // After a meeting that has not succeeded on all ranks.
  [[gnu::cold]] void give_up(attempt const& failed);

  // -- A process that joins.

  // Waits until the others have asked it, and are in a communicator with it. Throws error: timeout, mismatch.
  [[gnu::cold]] communicator<shm> enter(std::uint64_t& generation);
  // It has the state of the others.
  [[gnu::cold]] void finish_joining();

 private:
  [[gnu::cold]] void note_run(bool runs);
  [[gnu::cold]] void turn_away_late();
  // Of all members that there may be.
  std::vector<int> numbers_without(std::span<int const> present) const;

  training::elastic_options const& options_;
  roster& roster_;
  std::string name_;  // of the doors and meetings; empty if nobody can join
  int number_ = 0;
  int most_members_ = 0;  // that there may be
  bool is_new_ = false;
  std::optional<join_request> door_;
  std::chrono::steady_clock::time_point next_look_{}, next_late_look_{};
};

}  // namespace tutti::detail

#if !defined(TUTTI_COMPILED)
#include "tutti/training/elastic/growth_impl.hpp"
#endif
