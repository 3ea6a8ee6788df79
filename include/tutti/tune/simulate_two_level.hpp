// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The time of a collective in two levels on a simulated machine.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "tutti/algorithm/parts.hpp"
#include "tutti/algorithm/registry.hpp"
#include "tutti/analyze/simulate.hpp"
#include "tutti/core/nodes.hpp"
#include "tutti/tune/parts.hpp"

namespace tutti::analyze {

struct part_time {
  tutti::detail::level_part part{};
  int ranks = 1;                            // that take part together
  algorithm_id algorithm = algorithm_id{};  // the fastest; automatic where there is nothing to do
  double seconds = 0;
};

// The parts of a collective, one after the other, each by its fastest algorithm, in the largest node if nodes are uneven: the time is
// the sum. `m`: its first enclosure is a node. `work`: of the whole collective. A rank works on its own memory as fast as it combines.
inline std::vector<part_time> simulate_two_level(collective what, tutti::detail::node_map const& nodes, int ranks,
                                                 workload work, model const& m) {
  tutti::detail::problem const whole{
      .what = what,
      .bytes = static_cast<std::size_t>(by_block(what) ? work.bytes / ranks : work.bytes),
      .ranks = ranks,
      .node_count = nodes.count(),
      .largest_node = nodes.even() ? 0 : nodes.largest()};
  enclosure const node = m.enclosures.empty() ? enclosure{nodes.largest(), m.alpha, m.beta} : m.enclosures.front();
  bool const split = tutti::detail::all_cross(what, nodes.even(), whole.bytes) &&
                     (what == collective::all_to_all || nodes.largest() > 1);
  std::vector<part_time> out;
  for (tutti::detail::level_part const& p : tutti::detail::parts_of(what, split)) {
    if (p.detour && nodes.even()) continue;
    part_time one{.part = p, .ranks = p.across ? nodes.count() : nodes.largest()};
    // If all ranks of a node send at once, each has a port of its own, and all share the link of the node.
    double const ports = p.by_all ? nodes.largest() : 1;
    model here{.alpha = p.across ? m.alpha : node.alpha,
               .beta = p.across ? std::max(m.beta / ports, node.uplink) : node.beta,
               .gamma = m.gamma / (p.across ? ports : 1),
               .gap = m.gap};
    // Of the enclosures of nodes, one rank of each is left.
    for (std::size_t i = 1; p.across && i < m.enclosures.size(); ++i) {
      enclosure e = m.enclosures[i];
      e.ranks = std::max(1, e.ranks / std::max(1, node.ranks));
      e.beta = std::max(e.beta / ports, node.uplink);
      here.enclosures.push_back(e);
    }
    double const bytes = static_cast<double>(bytes_of(p, whole)) * (by_block(p.what) ? one.ranks : 1);
    if (one.ranks > 1) {
      for (std::size_t i = 1; i <= algorithms::size; ++i) {
        auto const id = static_cast<algorithm_id>(i);
        dynamic_schedule const s = find_schedule(id, p.what);
        if (!s) continue;
        double const time = simulate(s, {one.ranks}, {bytes, work.slice_bytes}, here).seconds;
        if (one.algorithm == algorithm_id::automatic || time < one.seconds) one.algorithm = id, one.seconds = time;
      }
    }
    if (p.work != tutti::detail::part_work::none) one.seconds += m.gamma * static_cast<double>(worked_bytes(p, whole));
    out.push_back(one);
  }
  return out;
}

}  // namespace tutti::analyze
