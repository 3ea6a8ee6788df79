// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Definitions of training/schedule/simulate.hpp.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "tutti/core/config.hpp"
#include "tutti/core/error.hpp"
#include "tutti/core/text.hpp"
#include "tutti/training/schedule/order.hpp"
#include "tutti/training/schedule/simulate.hpp"
#include "tutti/training/schedule/verify.hpp"

namespace tutti::training {

TUTTI_INLINE pipeline_timeline simulate_pipeline(dynamic_pipeline_schedule const& schedule, pipeline_shape s,
                                                 pipeline_times const& times) {
  if (analyze::verdict const found = verify_pipeline(schedule, s); !found)
    throw error({.code = error_code::bad_argument,
                 .what = found.why,
                 .way_out = "correct the schedule until verify_pipeline finds nothing"});
  if (!(times.forward >= 0 && times.backward >= 0 && times.message >= 0 &&
        std::isfinite(times.forward + times.backward + times.message)))
    throw error({.code = error_code::bad_argument,
                 .what = tutti::detail::join({"passes of a pipeline take ", times.forward, " and ", times.backward,
                                              ", and its messages ", times.message}),
                 .way_out = "pass finite times that are not negative"});
  int const stages = schedule.stages(s);
  tutti::detail::by_action<double> ends(stages, s.microbatches);
  std::vector<double> now(static_cast<std::size_t>(s.ranks)), computing(now);
  pipeline_timeline out;
  tutti::detail::in_order_of_needs(schedule, s, [&](int rank, int i, pipeline_action const& a) {
    auto const self = static_cast<std::size_t>(rank);
    double begin = now[self];
    if (int const before = tutti::detail::stage_before(a); before >= 0 && before < stages) {
      double const way = schedule.rank_of(s, before) == rank ? 0 : times.message;
      begin = std::max(begin, ends[{a.pass, before, a.microbatch}] + way);
    }
    double const length = a.pass == pipeline_pass::forward ? times.forward : times.backward;
    now[self] = ends[a] = begin + length;
    computing[self] += length;
    out.end = std::max(out.end, now[self]);
    out.computing = std::max(out.computing, computing[self]);
    out.events.push_back({rank, i, a, begin, now[self]});
  });
  if (!std::isfinite(out.end))
    throw error({.code = error_code::bad_argument,
                 .what = "the passes of this pipeline take longer than a number can say",
                 .way_out = "pass shorter times"});
  return out;
}

}  // namespace tutti::training
