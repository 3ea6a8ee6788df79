// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Definitions of tune/select.hpp.
#pragma once

#include <algorithm>
#include <list>
#include <mutex>
#include <utility>

#include "tutti/core/process.hpp"
#include "tutti/core/text.hpp"
#include "tutti/tune/parts.hpp"
#include "tutti/tune/select.hpp"
#include "tutti/tune/shipped.hpp"

namespace tutti::detail {

TUTTI_INLINE tuning::tuning() : tuning(shipped) {}

TUTTI_INLINE tuning::tuning(owned_table table, std::string source)
    : own_(std::make_shared<owned_table const>(std::move(table))), table_(own_->view()), source_(std::move(source)) {}

TUTTI_INLINE known_link tuning::link(distance d) const {
  if (table_.links[d].known())
    return {table_.links[d], measured_at_start_ ? "measured at start" : "from the tuning table"};
  if (!through_memory(d)) return {assumed_links[d], "assumed"};
  costs const c = constants(false);
  return {{c.hop, c.sent}, "from times of collectives"};
}

TUTTI_INLINE void tuning::take_links(link_times const& now) {
  for (distance const d : every_distance)
    if (now[d].known()) table_.links[d] = now[d];
  measured_at_start_ = true;
}

TUTTI_INLINE choice tuning::measured(problem& p) const {
  // If the sizes of the blocks are unknown, they may be large.
  if (p.ragged && p.bytes == 0) p.bytes = streamed_slice;
  rule const* const r = table_.find(p);
  return r == nullptr ? choice{} : choice{.algorithm = r->algorithm, .why = "measured", .how = r->how, .measured = r};
}

// If no other algorithm was measured to be faster.
inline constexpr choice library_choice{.algorithm = algorithm_id::native,
                                       .why = "the library's own, because no other was measured to be faster"};

TUTTI_INLINE choice tuning::select_in_one_level(problem p) {
  if (choice const out = measured(p); out.measured != nullptr) return out;
  return may_leave_to_library(p) ? library_choice : estimate(p, constants(p.crowded));
}

TUTTI_INLINE choice tuning::select(problem p) {
  if (p.node_count == 1) return select_in_one_level(p);
  if (choice const out = measured(p); out.measured != nullptr) return out;
  // Where each node has one rank, two levels send the same messages as one level.
  bool const library = may_leave_to_library(p),
             two_levels = p.ranks > p.node_count && objection(algorithm_id::two_level, p).empty();
  return library && !two_levels ? library_choice : over_nodes(in_small(p), library, two_levels);
}

TUTTI_INLINE std::string tuning::reason(choice const& c, std::string_view this_machine) const {
  std::string out(c.why);
  if (c.measured == nullptr && c.picoseconds == 0) return out;
  if (c.measured != nullptr && c.measured->nanoseconds > 0)
    append(out, {" at ", c.measured->measured_at, " bytes: ", microseconds(c.measured->nanoseconds)});
  if (c.measured == nullptr) append(out, {": ", microseconds(c.picoseconds / 1000)});
  if (c.runner_up != algorithm_id::automatic)
    append(out, {", next ", name(c.runner_up), " with ", microseconds(c.runner_up_picoseconds / 1000)});
  append(out, {"; ", c.measured != nullptr ? "a rule of " : "no rule fits, constants of ", source_, ", from ",
               table_.machine, ", ", table_.date});
  if (table_.machine != this_machine) append(out, {"; this machine: ", this_machine});
  return out;
}

TUTTI_INLINE costs const& tuning::constants(bool crowded) const {
  return table_.cost(crowded) == costs{} ? shipped.cost(crowded) : table_.cost(crowded);
}

TUTTI_INLINE costs tuning::constants(bool crowded, distance d) const {
  costs out = constants(crowded);
  if (through_memory(d) && (crowded || !table_.links[d].known())) return out;
  link_time const time = link(d).time;
  out.hop = crowded ? std::max(out.hop, time.latency) : time.latency;
  out.message = std::max(out.message, further_message(out.hop));
  out.sent = time.byte;
  return out;
}

TUTTI_INLINE choice tuning::estimate(problem const& p, costs const& c, link_time far) {
  choice out{.why = "estimated"};
  auto const& works = works_of(p);
  for (std::size_t i = 0; i < works.size(); ++i) {
    auto const id = static_cast<algorithm_id>(i + 1);
    if (!objection(id, p).empty()) continue;
    auto const [how, time] = p.messages ? memory_estimate{.picoseconds = time_of(works[i], p.bytes, c, far)}
                                        : estimate_in_memory(id, works[i], p, c);
    // Of equals the last, because one_shot follows the algorithms that take several rounds.
    if (out.algorithm == algorithm_id::automatic || time <= out.picoseconds) {
      out.runner_up = std::exchange(out.algorithm, id);
      out.runner_up_picoseconds = std::exchange(out.picoseconds, time);
      out.how = how;
    } else if (out.runner_up == algorithm_id::automatic || time < out.runner_up_picoseconds) {
      out.runner_up = id;
      out.runner_up_picoseconds = time;
    }
  }
  return out;
}

TUTTI_INLINE choice tuning::over_nodes(problem p, bool library, bool two_levels) {
  // Across nodes, the blocks of an all_to_all for all ranks of a node make one, which is estimated too.
  if (p.what == collective::all_to_all)
    p.bytes = std::min(p.bytes, max_estimated_bytes / static_cast<std::size_t>(p.ranks * p.ranks / p.node_count));
  link_time far = link(distance::across).time;
  if (p.crowded && p.ranks > p.node_count) far.latency *= 2;
  costs const c = constants(p.crowded, distance::messages);
  choice one = estimate(p, c, far);
  if (library) {
    problem const meeting{.what = collective::barrier,
                          .ranks = p.ranks,
                          .crowded = p.crowded,
                          .messages = true,
                          .many = p.many,
                          .nodes = p.nodes,
                          .node_count = p.node_count,
                          .largest_node = p.largest_node,
                          .schedules = p.schedules};
    one.algorithm = algorithm_id::native;
    if (meets) one.picoseconds += estimate(meeting, c, far).picoseconds;
  }
  if (!two_levels) return one;
  std::uint64_t const two = time_in_two_levels(p);
  if (two <= one.picoseconds)
    return {.algorithm = algorithm_id::two_level,
            .why = one.why,
            .picoseconds = two,
            .runner_up = one.algorithm,
            .runner_up_picoseconds = one.picoseconds};
  one.runner_up = algorithm_id::two_level;
  one.runner_up_picoseconds = two;
  return one;
}

TUTTI_INLINE std::uint64_t tuning::time_in_two_levels(problem const& p) {
  std::uint64_t out = 0;
  costs const own = constants(p.crowded, p.inside);
  for (level_part const& of : parts_of(p.what, all_cross(p.what, p.largest_node == 0, p.bytes))) {
    if (of.detour && p.largest_node == 0) continue;
    if (of.work != part_work::none)
      out += (of.work == part_work::arranges ? own.sent : own.combined) *
             std::min(worked_bytes(of, p), max_estimated_bytes) / 1000;
    problem const alone{.what = of.what,
                        .bytes = bytes_of(of, p),
                        .ranks = of.across ? p.node_count : ranks_of_largest(p),
                        .commutative = p.commutative,
                        .crowded = p.crowded,
                        .messages = true,  // priced alike inside and across, as the times of links are
                        .schedules = p.schedules};
    if (alone.ranks == 1) continue;
    out += estimate(alone, constants(p.crowded, of.across ? distance::across : p.inside)).picoseconds;
  }
  return out;
}

TUTTI_INLINE std::string tuning::microseconds(std::uint64_t nanoseconds) {
  return join({nanoseconds / 1000, ".", nanoseconds / 100 % 10, " us"});
}

TUTTI_INLINE tuning::work_of_each const& tuning::works_of(problem const& p) {
  analyze::node_sizes const nodes{p.node_count, p.nodes != node_order::scattered, p.largest_node};
  int const ranks = std::min(p.ranks, max_estimated_ranks);
  struct known_works {
    std::array<int, 5> of;
    work_of_each works;
  };
  struct all_known {
    std::mutex busy;
    std::list<known_works> works;  // whose elements stay where they are
  };
  static constinit one_per_process<all_known> kept;
  auto& [busy, known] = kept.get();
  std::lock_guard const lock(busy);
  known_works made{{static_cast<int>(p.what), ranks, nodes.count, nodes.consecutive, nodes.largest}, {}};
  for (known_works const& k : known)
    if (k.of == made.of) return k.works;
  for (std::size_t i = 0; i < made.works.size(); ++i)
    if (dynamic_schedule const s = p.schedules(static_cast<algorithm_id>(i + 1), p.what))
      made.works[i] = work_of(s, p.what, ranks, nodes);
  return known.emplace_back(made).works;
}

}  // namespace tutti::detail
