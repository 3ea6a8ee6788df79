// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Errors of a schedule or a step that are visible before anything moves.
#pragma once

#include <numeric>
#include <string>
#include <utility>

#include "tutti/algorithm/concept.hpp"
#include "tutti/analyze/contract.hpp"

namespace tutti::analyze {

// Thrown if a schedule is wrong.
struct flaw {
  std::string why;
};

inline std::string count_of(int n, char const* noun) { return std::to_string(n) + " " + noun + (n == 1 ? "" : "s"); }

// The defect of a schedule's numbers of lanes, phases, chunks and steps; empty if there is none. The cursors of a schedule with such
// a defect would leave their memory.
template <step_function S>
std::string complaint_about_counts(S const& schedule, shape s) {
  if (s.ranks < 1 || s.root < 0 || s.root >= s.ranks)
    return count_of(s.ranks, "rank") + " with root " + std::to_string(s.root);
  int const lanes = schedule.lanes(s), phases = schedule.phases(s);
  if (lanes < 1 || phases < 1 || schedule.chunks(s) < 1) return "lanes, phases and chunks must be at least 1";
  if (!tutti::detail::has_tracks(schedule, s))
    return count_of(lanes, "lane") + " of " + count_of(phases, "phase") + " are more than max_tracks";
  for (int rank = 0; rank < s.ranks; ++rank)
    for (int track = 0; track < lanes * phases; ++track) {
      int const steps = schedule.steps(s, {rank, track / phases, track % phases});
      if (steps < 0) return "rank " + std::to_string(rank) + " has " + count_of(steps, "step");
      if (steps > 0 && s.ranks == 1) return "one rank alone must have no steps";
    }
  return {};
}

template <step_function S>
void check_schedule(S const& schedule, collective what, shape s) {
  if (std::string wrong = complaint_about_counts(schedule, s); !wrong.empty()) throw flaw{std::move(wrong)};
  if (s.ordered && schedule.needs_commutative)
    throw flaw{"the schedule combines out of rank order (needs_commutative), but the call is ordered"};
  if (int const chunks = schedule.chunks(s); by_block(what) && chunks != s.ranks)
    throw flaw{"a chunk must be a rank's block, but there are " + count_of(chunks, "chunk") + " for " +
               count_of(s.ranks, "rank")};
}

// The defect of a step of rank `self`; null if there is none.
inline char const* complaint_about(step const& t, int self, shape s, bool pipelined) {
  if (t.from.count < 0 || t.to.count < 0) return "names fewer than 0 peers";
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
