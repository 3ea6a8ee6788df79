// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A tuning table: rules that say which algorithm was fastest for which calls, with the machine, date and command that
// measured it.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string_view>

#include "tutti/algorithm/registry.hpp"
#include "tutti/core/enum_text.hpp"
#include "tutti/execute/plan.hpp"
#include "tutti/tune/devices.hpp"
#include "tutti/tune/links.hpp"
#include "tutti/tune/problem.hpp"

namespace tutti::detail {

// Whether a schedule has steps with as many peers as there are ranks: more than a step may have, where ranks are many. So few ranks show
// it that no tree has as many branches.
[[gnu::cold]] constexpr bool has_wide_steps(dynamic_schedule const& schedule) {
  shape const s{34};
  for (int const rank : {0, 1, s.ranks - 1})
    for (int track = 0; track < schedule.lanes(s) * schedule.phases(s); ++track) {
      position const me{rank, track / schedule.phases(s), track % schedule.phases(s)};
      for (int i = 0; i < schedule.steps(s, me); ++i) {
        step const now = schedule.at(s, me, i);
        if (now.from.count >= s.ranks - 1 || now.to.count >= s.ranks - 1) return true;
      }
    }
  return false;
}

// Why an algorithm does not serve a problem; empty if it does.
constexpr std::string_view objection(schedule_properties const& s, problem const& p) {
  if (!s) return "it does not serve this collective";
  if (s.needs_commutative && !p.commutative)
    return "it combines contributions out of rank order and the operation is not commutative";
  if (p.at_once && !s.at_once)
    return "it sends partial results, but the operation must combine all contributions in one step";
  if (p.ragged && !s.ragged) return "it does not serve the _v form";
  return {};
}
[[gnu::cold]] constexpr std::string_view objection(algorithm_id id, problem const& p) {
  if (p.at_once && !is_scheduled(id)) return "it may round partial results, but the operation must round only once";
  if (id == algorithm_id::native) return p.native ? "" : "this transport has no collectives of its own";
  if (id == algorithm_id::two_level) {
    if (p.nodes == node_order::unknown) return "this transport has no nodes";
    if (p.ragged && !has_two_levels_v(p.what)) return "it does not serve the _v form";
    // An all_to_all copies blocks into the order of their recipients anyway.
    bool const keeps_order = is_prefix(p.what) || (by_block(p.what) && p.what != collective::all_to_all) ||
                             (reduces(p.what) && !p.commutative);
    if (p.nodes == node_order::scattered && keeps_order) return "the ranks of a node are not consecutive";
    return {};
  }
  auto const why = objection(properties_of(id, p.what), p);
  static_assert(max_ranks == 1024, "the sentence says so");
  if (why.empty() && p.many && has_wide_steps(p.schedules(id, p.what)))
    return "one of its steps communicates with all ranks, of which it supports at most 1024";
  return why;
}

// Whether the transport's library may be chosen without being named: it rounds at every combination, and it may be
// unable to determine the total size of a _v form.
constexpr bool may_leave_to_library(problem const& p) {
  return p.native && !p.named_native && !p.wide && !p.at_once && (!p.ragged || reduces(p.what));
}

// Whether the receivers of an algorithm can copy from private memory (protocol pull).
constexpr bool may_pull(algorithm_id id, collective c) {
  schedule_properties const s = properties_of(id, c);
  return s && s.direct && s.fetchable;
}

// The conditions of a rule: whether each rank has a core of its own, and whether ranks can read each other's private
// memory or share no memory (`any`: they share some), or are on several known nodes, with consecutive or scattered
// ranks.
enum class occupancy : std::uint8_t { any, apart, crowded };
enum class reach : std::uint8_t { any, pulls, closed, messages, nodes, scattered };

inline constexpr char const* occupancy_names[]{"any", "apart", "crowded"};
inline constexpr char const* reach_names[]{"any", "pulls", "closed", "messages", "nodes", "scattered"};

constexpr std::string_view name(occupancy o) { return text_of<occupancy::crowded>(o, occupancy_names, "?"); }
constexpr std::string_view name(reach r) { return text_of<reach::scattered>(r, reach_names, "?"); }

constexpr reach reach_of(problem const& p) {
  if (!p.messages) return p.pulls ? reach::pulls : reach::closed;
  if (p.node_count == 1) return reach::messages;
  return p.nodes == node_order::consecutive ? reach::nodes : reach::scattered;
}

// The first rule that matches a problem decides. Every program has a few hundred, so they are small.
struct rule {
  static constexpr std::uint32_t no_limit = std::numeric_limits<std::uint32_t>::max();

  collective what{};
  std::uint16_t min_ranks = 2, max_ranks = tutti::max_ranks;
  occupancy cores = occupancy::any;
  reach memory = reach::any;
  std::uint32_t up_to = no_limit;  // problem::bytes; a limit of 4 GiB is none
  algorithm_id algorithm{};
  protocol how = protocol::automatic;  // or pull
  std::uint32_t nanoseconds = 0;       // time at `measured_at` bytes; 0: not measured
  std::uint32_t measured_at = 0;

  friend constexpr bool operator==(rule const&, rule const&) = default;

  // The field for a size, or the greatest that fits there.
  static constexpr std::uint32_t size_field(std::size_t bytes) {
    return static_cast<std::uint32_t>(std::min<std::size_t>(bytes, no_limit));
  }
  constexpr std::size_t most_bytes() const { return up_to == no_limit ? device_limits::no_limit : up_to; }

  constexpr bool fits(problem const& p) const {
    return what == p.what && min_ranks <= p.ranks && p.ranks <= max_ranks && p.bytes <= most_bytes() &&
           (cores == occupancy::any || (cores == occupancy::crowded) == p.crowded) &&
           (memory == reach_of(p) || (memory == reach::any && !p.messages)) && (how != protocol::pull || p.pulls) &&
           (algorithm != algorithm_id::native || may_leave_to_library(p)) && objection(algorithm, p).empty();
  }
};
static_assert(sizeof(rule) == 24);

// The constants of the cost model (analyze/cost.hpp, with the gap of LogGP; through shared memory, estimate.hpp): picoseconds, and
// femtoseconds per byte.
struct costs {
  std::uint64_t hop = 0;       // a message that others wait for
  std::uint64_t message = 0;   // a further message through the same port
  std::uint64_t sent = 0;      // a byte of a message
  std::uint64_t combined = 0;  // a byte combined with another

  friend constexpr bool operator==(costs const&, costs const&) = default;
};

// Strings and rules are not owned: constants, or parts of an owned_table.
struct tuning_table {
  std::string_view machine, date, command;  // the origin of the measurements
  costs apart, crowded;                     // for problems that no rule matches
  std::span<rule const> rules;
  std::span<rule const> similar{},
      over_messages{};  // further rules: those of a similar machine, and those of all shipped tables
  link_times links{};   // only measured ones
  device_limits devices{};

  constexpr costs const& cost(bool is_crowded) const { return is_crowded ? crowded : apart; }
  constexpr std::array<std::span<rule const>, 3> all_rules() const { return {rules, similar, over_messages}; }
  [[gnu::cold]] constexpr rule const* find(problem const& p) const {
    for (std::span<rule const> const some : all_rules())
      for (rule const& r : some)
        if (r.fits(p)) return &r;
    return nullptr;
  }
};

}  // namespace tutti::detail
