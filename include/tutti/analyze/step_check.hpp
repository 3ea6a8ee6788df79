// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Errors of a schedule that are visible before anything moves.
#pragma once

#include <string>
#include <utility>

#include "tutti/algorithm/step_flaws.hpp"
#include "tutti/analyze/contract.hpp"

namespace tutti::analyze {

// Thrown if a schedule is wrong.
struct flaw {
  std::string why;
};

inline std::string count_of(int n, char const* noun) { return std::to_string(n) + " " + noun + (n == 1 ? "" : "s"); }

inline std::string track_name(int track, int phases) {
  return "lane " + std::to_string(track / phases) + ", phase " + std::to_string(track % phases);
}

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
  for (int rank = 0; rank < s.ranks; ++rank)
    for (int track = 0; track < schedule.lanes(s) * schedule.phases(s); ++track) {
      position const me{rank, track / schedule.phases(s), track % schedule.phases(s)};
      for (int i = 0; i < schedule.steps(s, me); ++i)
        if (char const* const wrong = tutti::detail::flaw_in_chunks(schedule.at(s, me, i), schedule.chunks(s)))
          throw flaw{"rank " + std::to_string(rank) + ", " + track_name(track, schedule.phases(s)) + ", step " +
                     std::to_string(i) + ": " + wrong};
    }
}

}  // namespace tutti::analyze
