// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Chooses an algorithm: by the first matching rule of the tuning table, else the one with the least cost in the model;
// over several nodes, in one level or two.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "tutti/algorithm/registry.hpp"
#include "tutti/tune/estimate.hpp"
#include "tutti/tune/links.hpp"
#include "tutti/tune/problem.hpp"
#include "tutti/tune/table.hpp"
#include "tutti/tune/text.hpp"

namespace tutti::detail {

struct choice {
  algorithm_id algorithm{};
  std::string_view why{};
  protocol how = protocol::automatic;  // or pull: how messages in private memory travel

  rule const* measured = nullptr;  // the rule that decided; if null, the estimates that follow, if any
  std::uint64_t picoseconds = 0;   // of the chosen algorithm
  algorithm_id runner_up = algorithm_id::automatic;  // the second best
  std::uint64_t runner_up_picoseconds = 0;           // of the runner-up
};

// The times of a link, and their origin.
struct known_link {
  link_time time;
  std::string_view source;
};

// The table that a rank chooses by. All ranks have the same table, and so make the same choice.
class tuning {
 public:
  [[gnu::cold]] tuning();  // by the table for no particular processor
  [[gnu::cold]] explicit tuning(tuning_table const& built_in) : table_(built_in) {}
  tuning(owned_table table, std::string source);

  tuning_table const& table() const { return table_; }
  std::string const& source() const { return source_; }

  known_link link(distance d) const;
  // Times measured in this run replace those of the table.
  void take_links(link_times const& now);

  // Whether all ranks meet before the library carries out a call, so that a mismatch or a missing rank is found.
  bool meets = true;

  // Never chooses an algorithm that `objection` rejects.
  [[gnu::cold]] choice select(problem p);
  // The same if the nodes of ranks do not matter, so a transport that knows no nodes need not compile what does.
  [[gnu::cold]] choice select_in_one_level(problem p);

  // The full reason for a choice.
  [[gnu::cold]] std::string reason(choice const& c, std::string_view this_machine) const;

 private:
  // By a rule; `measured` is null if none fits. Blocks of unknown size get one.
  [[gnu::cold]] choice measured(problem& p) const;

  costs const& constants(bool crowded) const;
  // The constants for messages over this distance.
  costs constants(bool crowded, distance d) const;

  // The best schedule, and the second best.
  [[gnu::cold]] choice estimate(problem const& p, costs const& c, link_time far = {});

  // The library is assumed to be as fast as the best schedule of one level, after a barrier in which all ranks meet. Ranks
  // that share a core take turns at sending between nodes, which the time of a single link does not show: 4 ranks on 2
  // nodes of one core each took 37 us for 8 bytes in one level and 22 to 35 in two, with 12 us per message (AMD EPYC, Zen 5).
  [[gnu::cold]] choice over_nodes(problem p, bool library, bool two_levels);
  std::uint64_t time_in_two_levels(problem const& p);

  using work_of_each = std::array<estimated_work, algorithms::size>;

  static std::string microseconds(std::uint64_t nanoseconds);

  // Searched once in a process for each collective and number of ranks, because a search takes about a millisecond, and groups of ranks,
  // and ranks that are threads, ask for the same.
  [[gnu::cold]] static work_of_each const& works_of(problem const& p);

  std::shared_ptr<owned_table const> own_;
  tuning_table table_;
  std::string source_ = "the built-in table";
  bool measured_at_start_ = false;
};

}  // namespace tutti::detail

#if !defined(TUTTI_COMPILED)
#include "tutti/tune/select_impl.hpp"
#endif
