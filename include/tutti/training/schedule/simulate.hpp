// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Simulates a pipeline: when each rank computes what, and how long it is idle.
#pragma once

#include <vector>

#include "tutti/training/schedule/dynamic.hpp"

namespace tutti::training {

// The times of one microbatch in one stage, in any unit. A message takes no time of its ranks.
struct pipeline_times {
  double forward = 1;
  double backward = 2;  // two products for each of the forward pass, as a rule
  double message = 0;   // from the end of a pass to its receipt on another rank
};

// A pass of a rank.
struct pipeline_event {
  int rank = 0;
  int index = 0;  // the step
  pipeline_action action{};
  double begin = 0, end = 0;
};

// What all ranks do, and when.
struct pipeline_timeline {
  std::vector<pipeline_event> events;
  double end = 0;        // of the last pass
  double computing = 0;  // of the rank that computes longest

  // The idle time, as a share of the time that the computation alone would take: (p - 1) / m for gpipe.
  double bubble() const { return computing == 0 ? 0 : end / computing - 1; }
};

// Runs the schedule on clocks. Throws error: bad_argument if verify_pipeline finds it wrong, or if a time is negative or not finite.
//
//   double const idle = simulate_pipeline(gpipe{}, {.ranks = 4, .microbatches = 8}).bubble();  // 3/8
pipeline_timeline simulate_pipeline(dynamic_pipeline_schedule const& schedule, pipeline_shape s,
                                    pipeline_times const& times = {});

}  // namespace tutti::training

#if !defined(TUTTI_COMPILED)
#include "tutti/training/schedule/simulate_impl.hpp"
#endif
