// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Whether all ranks do the same to their neighbours, so that one can represent many.
#pragma once

#include "tutti/algorithm/concept.hpp"

namespace tutti::analyze {

// Whether rank r + period does what rank r does, with its peers shifted by the same distance. Compares all steps of the first
// and the last period and of a few between, which is enough to find any schedule that depends on a rank's position.
template <step_function S>
bool repeats(S const& schedule, shape s, int period) {
  auto const same = [&](peers a, int rank, peers b, int other) {
    if (a.count != b.count) return false;
    if (a.count == 0 || (a.count == s.ranks && a.stride == b.stride && a.stride == 1))
      return true;  // all, in whatever order
    return wrap(a.first - rank, s.ranks) == wrap(b.first - other, s.ranks) &&
           (a.count == 1 || wrap(a.stride, s.ranks) == wrap(b.stride, s.ranks));
  };
  int const periods = s.ranks / period;
  if (s.ranks % period != 0) return false;
  for (int const sample : {1, 2, 3, periods / 3, periods / 2, periods - 2, periods - 1}) {
    if (sample < 1 || sample >= periods) continue;
    for (int rank = 0; rank < period; ++rank)
      for (int track = 0; track < schedule.lanes(s) * schedule.phases(s); ++track) {
        position const me{rank, track / schedule.phases(s), track % schedule.phases(s)};
        position const other{rank + sample * period, me.lane, me.phase};
        int const steps = schedule.steps(s, me);
        if (steps != schedule.steps(s, other)) return false;
        for (int i = 0; i < steps; ++i) {
          step const a = schedule.at(s, me, i), b = schedule.at(s, other, i);
          if (!same(a.from, me.rank, b.from, other.rank) || !same(a.to, me.rank, b.to, other.rank) ||
              a.forwards() != b.forwards() || a.keep.what.count != b.keep.what.count || a.keep.split != b.keep.split ||
              a.give.what.count != b.give.what.count || a.give.split != b.give.split)
            return false;
        }
      }
  }
  return true;
}

}  // namespace tutti::analyze
