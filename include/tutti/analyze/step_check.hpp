// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Errors of a schedule or a step that are visible before anything moves.
#pragma once

#include <numeric>
#include <string>

#include "tutti/algorithm/concept.hpp"
#include "tutti/analyze/contract.hpp"

namespace tutti::analyze {

// Thrown if a schedule is wrong.
struct flaw {
  std::string why;
};

inline std::string count_of(int n, char const* noun) { return std::to_string(n) + " " + noun + (n == 1 ? "" : "s"); }

template <step_function S>
void check_schedule(S const& schedule, collective what, shape s) {
  int const lanes = schedule.lanes(s), phases = schedule.phases(s), chunks = schedule.chunks(s);
  if (s.ordered && schedule.needs_commutative)
    throw flaw{"the schedule combines out of rank order (needs_commutative), but the call is ordered"};
  if (lanes < 1 || phases < 1 || chunks < 1) throw flaw{"lanes, phases and chunks must be at least 1"};
  if (lanes * phases > max_tracks)
    throw flaw{count_of(lanes, "lane") + " of " + count_of(phases, "phase") + " are more than max_tracks"};
  if (by_block(what) && chunks != s.ranks)
    throw flaw{"a chunk must be a rank's block, but there are " + count_of(chunks, "chunk") + " for " +
               count_of(s.ranks, "rank")};
  if (s.ranks > 1) return;
  for (int track = 0; track < lanes * phases; ++track)
    if (schedule.steps(s, {0, track / phases, track % phases}) != 0) throw flaw{"one rank alone must have no steps"};
}

// The defect of a step of rank `self`; null if there is none.
inline char const* complaint_about(step const& t, int self, shape s, bool pipelined) {
  auto const distinct = [&](peers const& p) { return p.count <= s.ranks / std::gcd(s.ranks, wrap(p.stride, s.ranks)); };
  auto const one_chunk = [](peers const& p, region const& r) { return p.empty() || r.split || r.what.count == 1; };
  if (!distinct(t.from) || !distinct(t.to)) return "names a peer twice";
  if ((t.give.split && !t.forwards() && t.give.what.count != t.to.count) ||
      (!t.from.empty() && t.keep.split && t.keep.what.count != t.from.count))
    return "splits chunks among peers, but not as many";
  if (pipelined && !(one_chunk(t.from, t.keep) && one_chunk(t.to, t.give)))
    return "moves several chunks in a message, but the schedule is pipelined";
  if (t.keep.where == space::input) return "writes to its input";
  if (t.forwards() && (t.from.empty() || t.keep.split)) return "passes on a result, but forms none";
  if (t.from.empty()) return nullptr;
  if (t.keep.where == space::none && !t.forwards()) return "neither keeps nor passes on what it receives";
  bool contributes = false;
  for (int k = 0; k < t.from.count; ++k) contributes |= t.from.at(k, s.ranks) == self;
  if (!contributes) return nullptr;
  if (t.own.where == space::none) return "is among its sources, but contributes nothing";
  if (!t.keep.split && t.own.what.count != t.keep.what.count)
    return "contributes another number of chunks than it receives";
  return nullptr;
}

}  // namespace tutti::analyze
