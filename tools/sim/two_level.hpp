// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// tutti-sim on the algorithm two_level: the proof that its parts make the collective, and their times.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "tutti/analyze/verify_two_level.hpp"
#include "tutti/tune/simulate_two_level.hpp"
#include "tutti/tune/table.hpp"

namespace simulator {

using tutti::collective;
using tutti::detail::node_map;

// The node of each rank, for nodes of these sizes; or for ranks on `count` nodes, as even as they can be, and in turn if scattered.
inline node_map nodes_of_sizes(std::vector<int> const& sizes) {
  std::vector<int> out;
  for (std::size_t node = 0; node < sizes.size(); ++node)
    out.insert(out.end(), static_cast<std::size_t>(sizes[node]), static_cast<int>(node));
  return node_map(out);
}
inline node_map nodes_of_count(int ranks, int count, bool scattered) {
  std::vector<int> out;
  for (int r = 0; r < ranks; ++r)
    out.push_back(scattered ? r % count : static_cast<int>(static_cast<long long>(r) * count / ranks));
  return node_map(out);
}
// Ranks on nodes of `each`; the last has the rest.
inline node_map nodes_of(int ranks, int each) {
  std::vector<int> out;
  for (int r = 0; r < ranks; ++r) out.push_back(r / std::max(1, each));
  return node_map(out);
}

class two_level_sweep {
 public:
  two_level_sweep(collective what, bool in_place) : what_(what), in_place_(in_place) {}

  // All circumstances on these nodes that two_level does not refuse.
  void prove(node_map const& nodes, int ranks) {
    for (int root = 0; root < (rooted(what_) ? ranks : 1); root += std::max(1, ranks / 8))
      for (bool const ordered : {false, true})
        for (bool const uneven : {false, true})
          for (bool const large : {false, true}) {
            if (!why_.empty() || (ordered && !reduces(what_)) || (uneven && !by_block(what_)) ||
                refuses(nodes, ordered, uneven))
              continue;
            auto const v =
                tutti::analyze::verify_two_level(what_, nodes, {ranks, root, ordered}, {in_place_, uneven, large});
            ++cases_;
            if (!v.ok)
              why_ = fmt::format("{} ranks on {}, root {}{}{}{}: {}", ranks, nodes.text(), root,
                                 ordered ? ", ordered" : "", uneven ? ", uneven blocks" : "", large ? ", large" : "",
                                 v.why);
          }
  }
  // Prints the result, and returns whether all was right.
  bool print() const {
    fmt::print("{:<7} {:<18} {:<14} {}\n", why_.empty() ? "correct" : "WRONG", "two_level", name(what_),
               why_.empty() ? fmt::format("{} {}", cases_, cases_ == 1 ? "case" : "cases") : why_);
    return why_.empty();
  }

 private:
  bool refuses(node_map const& nodes, bool ordered, bool uneven) const {
    using tutti::detail::node_order;
    return !tutti::detail::objection(tutti::algorithm_id::two_level,
                                     {.what = what_,
                                      .commutative = !ordered,
                                      .ragged = uneven,
                                      .nodes = nodes.consecutive() ? node_order::consecutive : node_order::scattered})
                .empty();
  }

  collective what_;
  bool in_place_;
  int cases_ = 0;
  std::string why_;
};

// Proves two_level for these numbers of ranks: on nodes of the given sizes, or on 1 to 9 nodes, consecutive and scattered, even where
// the ranks allow it. `only`: a collective, or all.
inline bool verify_two_levels(std::string_view only, int first, int last, std::vector<int> const& sizes,
                              bool in_place) {
  bool fine = true;
  if (sizes.empty() && last < 2) return fine;  // there is nothing to prove
  for (collective const c : tutti::every_collective) {
    if (only != "all" && only != name(c)) continue;
    two_level_sweep sweep(c, in_place);
    if (!sizes.empty()) {
      node_map const nodes = nodes_of_sizes(sizes);
      int ranks = 0;
      for (int const each : sizes) ranks += each;
      sweep.prove(nodes, ranks);
    }
    for (int p = std::max(first, 2); sizes.empty() && p <= last; ++p)
      for (int count = 1; count <= std::min(p, 9); ++count)
        for (bool const scattered : {false, true}) sweep.prove(nodes_of_count(p, count, scattered), p);
    fine = sweep.print() && fine;
  }
  return fine;
}

// "inside reduce_scatter by ring 3.1 us, ..."
template <class Time>
std::string parts_text(std::vector<tutti::analyze::part_time> const& parts, Time&& time_text) {
  std::string out;
  for (auto const& p : parts)
    out += fmt::format("{}{} {}{} {}", out.empty() ? "" : ", ", p.part.across ? "across" : "inside", name(p.part.what),
                       p.algorithm == tutti::algorithm_id::automatic ? "" : fmt::format(" by {}", name(p.algorithm)),
                       time_text(p.seconds));
  return out;
}

}  // namespace simulator
