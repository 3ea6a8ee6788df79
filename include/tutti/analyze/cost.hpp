// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The cost of a schedule, derived from the schedule itself: nothing here depends on an algorithm.
#pragma once

#include "tutti/analyze/simulate.hpp"

namespace tutti::analyze {

// T = hops * alpha + sent * bytes * beta + combined * bytes * gamma: the terms that papers give in closed form. A ring's
// all-reduce has hops = 2(p-1), sent = 2(p-1)/p and combined = (p-1)/p. (R. Thakur, R. Rabenseifner, W. Gropp, "Optimization
// of collective communication operations in MPICH", 2005.)
struct terms {
  double hops = 0;      // consecutive messages
  double sent = 0;      // consecutive messages through the busiest ports, in multiples of the full message
  double combined = 0;  // the same for combining

  constexpr double seconds(double bytes, model const& m) const {
    return hops * m.alpha + bytes * (sent * m.beta + combined * m.gamma);
  }
};

// Each term is the critical path of an execution without slices in which nothing else takes time. Their sum is the
// exact time if these paths coincide, and otherwise an upper bound.
template <step_function S>
terms terms_of(S const& schedule, shape s) {
  auto const time = [&](double alpha, double beta, double gamma) {
    return simulate(schedule, s, {.bytes = 1}, {.alpha = alpha, .beta = beta, .gamma = gamma}).seconds;
  };
  return {time(1, 0, 0), time(0, 1, 0), time(0, 0, 1)};
}

// The time if slices stream. A pipeline in its steady state takes the same time for each further slice, so only the
// first slices are simulated and the rest is extrapolated.
template <step_function S>
double predict(S const& schedule, shape s, workload work, model const& m = {}) {
  double const chunk = work.bytes / schedule.lanes(s) / schedule.chunks(s);
  double const slices = work.slice_bytes > 0 ? chunk / work.slice_bytes : 1;
  static constexpr double enough = 16;
  if (slices <= 2 * enough) return simulate(schedule, s, work, m).seconds;
  double const slice = work.slice_bytes * (work.bytes / chunk);
  double const some = simulate(schedule, s, {enough * slice, work.slice_bytes}, m).seconds;
  double const more = simulate(schedule, s, {2 * enough * slice, work.slice_bytes}, m).seconds;
  return more + (more - some) / enough * (slices - 2 * enough);
}

}  // namespace tutti::analyze
