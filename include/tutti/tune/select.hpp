// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The choice of an algorithm: the first rule of the tuning table that fits, else the least cost by the model; over several
// nodes that of one level or two.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tutti/algorithm/registry.hpp"
#include "tutti/core/text.hpp"
#include "tutti/tune/estimate.hpp"
#include "tutti/tune/links.hpp"
#include "tutti/tune/parts.hpp"
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
  tuning(owned_table table, std::string source)
      : own_(std::make_shared<owned_table const>(std::move(table))), table_(own_->view()), source_(std::move(source)) {}

  tuning_table const& table() const { return table_; }
  std::string const& source() const { return source_; }

  known_link link(distance d) const {
    if (table_.links[d].known()) return {table_.links[d], measured_at_start_ ? "measured at start" : "measured"};
    if (!through_memory(d)) return {assumed_links[d], "assumed"};
    costs const c = constants({});
    return {{c.hop, c.sent}, "fitted to collectives"};
  }
  // Those of this run count instead of the table's.
  void take_links(link_times const& now) {
    for (distance const d : every_distance)
      if (now[d].known()) table_.links[d] = now[d];
    measured_at_start_ = true;
  }

  // Never one that `objection` refuses.
  [[gnu::cold]] choice select(problem p) {
    // Where nobody knows the sizes of the blocks, nobody knows them to be small.
    if (p.ragged && p.bytes == 0) p.bytes = streamed_slice;
    if (rule const* const r = table_.find(p))
      return {.algorithm = r->algorithm, .why = "measured", .how = r->how, .measured = r};
    bool const library = may_leave_to_library(p),
               two_levels = p.node_count > 1 && objection(algorithm_id::two_level, p).empty();
    if (library && !two_levels)
      return {.algorithm = algorithm_id::native, .why = "the library's own, where no other was measured to be faster"};
    return p.node_count == 1 ? estimate(p, constants(p)) : over_nodes(in_small(p), library, two_levels);
  }

  // Why, in full.
  [[gnu::cold]] std::string reason(choice const& c, std::string_view this_machine) const {
    std::string out(c.why);
    if (c.measured == nullptr && c.picoseconds == 0) return out;
    if (c.measured != nullptr && c.measured->nanoseconds > 0)
      out += join({": ", microseconds(c.measured->nanoseconds), " for ", c.measured->measured_at, " bytes"});
    if (c.measured == nullptr) out += join({": ", microseconds(c.picoseconds / 1000)});
    if (c.runner_up != algorithm_id::automatic)
      out += join({", next ", name(c.runner_up), " with ", microseconds(c.runner_up_picoseconds / 1000)});
    out += join({"; ", c.measured != nullptr ? "a rule of " : "no rule fits, constants of ", source_, ", from ",
                 table_.machine, ", ", table_.date});
    if (table_.machine != this_machine) out += join({", which is not this machine: ", this_machine});
    return out;
  }

 private:
  costs const& constants(problem const& p) const {
    return table_.cost(p) == costs{} ? shipped.cost(p) : table_.cost(p);
  }
  // The constants, where messages go so far. Two ranks that were measured alone do not tell what ranks that share cores take.
  costs constants(problem const& p, distance d) const {
    costs out = constants(p);
    if (through_memory(d) && (p.crowded || !table_.links[d].known())) return out;
    link_time const time = link(d).time;
    out.hop = p.crowded ? std::max(out.hop, time.latency) : time.latency;
    out.message = std::max(out.message, out.hop / 4);
    out.sent = time.byte;
    return out;
  }

  // The best schedule, and the next.
  [[gnu::cold]] choice estimate(problem const& p, costs const& c, link_time far = {}) {
    choice out{.why = "estimated"};
    auto const& works = works_of(p);
    for (std::size_t i = 0; i < works.size(); ++i) {
      auto const id = static_cast<algorithm_id>(i + 1);
      if (!objection(id, p).empty()) continue;
      std::uint64_t const time = time_of(works[i], p.bytes, c, far);
      if (out.algorithm == algorithm_id::automatic || time < out.picoseconds) {
        out.runner_up = std::exchange(out.algorithm, id);
        out.runner_up_picoseconds = std::exchange(out.picoseconds, time);
      } else if (out.runner_up == algorithm_id::automatic || time < out.runner_up_picoseconds) {
        out.runner_up = id;
        out.runner_up_picoseconds = time;
      }
    }
    return out;
  }

  // The library is taken to do as well as the best schedule of one level. Ranks that share a core send and receive in turn
  // what goes from node to node: 4 ranks on 2 nodes of a core each took 37 us for 8 bytes in one level and 22 to 35 in two, at
  // 12 a message (AMD EPYC, Zen 5).
  [[gnu::cold]] choice over_nodes(problem const& p, bool library, bool two_levels) {
    link_time far = link(distance::across).time;
    if (p.crowded && p.ranks > p.node_count) far.latency *= 2;
    choice one = estimate(p, constants(p, distance::messages), far);
    if (library) one.algorithm = algorithm_id::native;
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
  std::uint64_t time_in_two_levels(problem const& p) {
    std::uint64_t out = 0;
    for (level_part const& of : parts_of(p)) {
      problem const alone{.what = of.what,
                          .bytes = of.bytes,
                          .ranks = of.across ? p.node_count : p.ranks / p.node_count,
                          .commutative = p.commutative,
                          .crowded = p.crowded};
      if (alone.ranks == 1) continue;
      out += estimate(alone, constants(p, of.across ? distance::across : p.inside)).picoseconds;
    }
    return out;
  }

  using work_of_each = std::array<estimated_work, algorithms::size>;

  static std::string microseconds(std::uint64_t nanoseconds) {
    return join({nanoseconds / 1000, ".", nanoseconds / 100 % 10, " us"});
  }

  // Searched once for a collective and ranks, of which a communicator has few.
  struct known_works {
    problem of;
    work_of_each works{};
  };
  [[gnu::cold]] work_of_each const& works_of(problem const& p) {
    auto const same = [&](auto const& k) {
      return k->of.what == p.what && k->of.ranks == p.ranks && k->of.node_count == p.node_count &&
             k->of.nodes == p.nodes;
    };
    if (auto const at = std::ranges::find_if(known_, same); at != known_.end()) return (*at)->works;
    auto made = std::make_shared<known_works>(known_works{.of = p});
    analyze::even_nodes const nodes{p.node_count, p.nodes != node_order::scattered};
    for (std::size_t i = 0; i < made->works.size(); ++i)
      if (dynamic_schedule const s = find_schedule(static_cast<algorithm_id>(i + 1), p.what))
        made->works[i] = work_of(s, p.what, p.ranks, nodes);
    return known_.emplace_back(std::move(made))->works;
  }

  std::shared_ptr<owned_table const> own_;
  tuning_table table_ = shipped;
  std::string source_ = "the built-in table";
  bool measured_at_start_ = false;
  std::vector<std::shared_ptr<known_works const>> known_;
};

}  // namespace tutti::detail
