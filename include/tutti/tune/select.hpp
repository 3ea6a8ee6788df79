// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The choice of an algorithm: the first rule of the tuning table that fits, else the least cost by the model; over several
// nodes that of one level or two.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tutti/algorithm/registry.hpp"
#include "tutti/tune/estimate.hpp"
#include "tutti/tune/links.hpp"
#include "tutti/tune/problem.hpp"
#include "tutti/tune/shipped.hpp"
#include "tutti/tune/table.hpp"
#include "tutti/tune/text.hpp"

namespace tutti::detail {

struct choice {
  algorithm_id algorithm{};
  std::string_view why{};
  protocol how = protocol::automatic;  // or pull: how messages in private memory travel

  rule const* measured = nullptr;  // the rule that decided, else what the model says, if it was asked:
  std::uint64_t picoseconds = 0;   // its time,
  algorithm_id runner_up = algorithm_id::automatic;  // the next best
  std::uint64_t runner_up_picoseconds = 0;           // and its time
};

// What a message takes, and how that is known.
struct known_link {
  link_time time;
  std::string_view source;
};

// What a rank chooses by. All ranks have the same table, and so choose the same.
class tuning {
 public:
  tuning() = default;  // what tutti ships
  tuning(owned_table table, std::string source);

  tuning_table const& table() const { return table_; }
  std::string const& source() const { return source_; }

  known_link link(distance d) const;
  // Those of this run count instead of the table's.
  void take_links(link_times const& now);

  // Never one that `objection` refuses.
  [[gnu::cold]] choice select(problem p);

  // Why, in full.
  [[gnu::cold]] std::string reason(choice const& c, std::string_view this_machine) const;

 private:
  costs const& constants(problem const& p) const;
  // The constants, where messages go so far. Two ranks that were measured alone do not tell what ranks that share cores take.
  costs constants(problem const& p, distance d) const;

  // The best schedule, and the next.
  [[gnu::cold]] choice estimate(problem const& p, costs const& c, link_time far = {});

  // The library is taken to do as well as the best schedule of one level. Ranks that share a core send and receive in turn
  // what goes from node to node: 4 ranks on 2 nodes of a core each took 37 us for 8 bytes in one level and 22 to 35 in two, at
  // 12 a message (AMD EPYC, Zen 5).
  [[gnu::cold]] choice over_nodes(problem const& p, bool library, bool two_levels);
  std::uint64_t time_in_two_levels(problem const& p);

  using work_of_each = std::array<estimated_work, algorithms::size>;

  static std::string microseconds(std::uint64_t nanoseconds);

  // Searched once for a collective and ranks, of which a communicator has few.
  struct known_works {
    problem of;
    work_of_each works{};
  };
  [[gnu::cold]] work_of_each const& works_of(problem const& p);

  std::shared_ptr<owned_table const> own_;
  tuning_table table_ = shipped;
  std::string source_ = "the built-in table";
  bool measured_at_start_ = false;
  std::vector<std::shared_ptr<known_works const>> known_;
};

}  // namespace tutti::detail

#if !defined(TUTTI_COMPILED)
#include "tutti/tune/select_impl.hpp"
#endif
