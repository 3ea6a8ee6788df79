// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Definitions of call/own_steps.hpp.
#pragma once

#include "tutti/algorithm/step_flaws.hpp"
#include "tutti/call/own_steps.hpp"
#include "tutti/call/refuse.hpp"
#include "tutti/core/text.hpp"

namespace tutti::detail {

TUTTI_INLINE void expect_safe_steps(request const& r, int rank, int ranks, std::source_location where) {
  dynamic_schedule const& schedule = r.unlisted->schedule;
  shape const s{ranks, r.root, !r.commutative};
  if (!has_tracks(schedule, s))
    refuse(rank, join({r.unlisted->name, " does not have 1 to ", max_tracks, " lanes times phases, or no chunk"}),
           "correct its schedule", where);
  auto const refuse_schedule = [&](auto... flaw) {
    refuse(rank, join({r.unlisted->name, " cannot do ", name(r.what), " among ", ranks, " ranks: ", flaw...}),
           "correct its schedule; tutti::analyze::verify finds all that is wrong with it", where);
  };
  int const lanes = schedule.lanes(s), phases = schedule.phases(s), all = by_block(r.what) ? ranks : schedule.chunks(s);
  for (int track = 0; track < lanes * phases; ++track) {
    position const me{rank, track / phases, track % phases};
    int const steps = schedule.steps(s, me);
    if (steps < 0) refuse_schedule("rank ", rank, " has ", steps, " steps");
    for (int i = 0; i < steps; ++i) {
      step const t = schedule.at(s, me, i);
      char const* flaw = flaw_in_chunks(t, all);
      if (flaw == nullptr) flaw = flaw_in_step(t, rank, s, schedule.pipelined);
      if (flaw == nullptr) flaw = flaw_in_memory(t, r.what, rank, s, all, schedule.scratch, r.ragged);
      if (flaw != nullptr)
        refuse_schedule("step ", i, " of rank ", rank, ", lane ", me.lane, ", phase ", me.phase, ", ", flaw);
    }
  }
}

}  // namespace tutti::detail
