// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// 1F1B: a backward pass after each forward pass, once the pipeline is full.
#pragma once

#include <algorithm>
#include <string_view>

#include "tutti/training/schedule/schedule.hpp"

namespace tutti::training {

// Takes as long as gpipe, but a rank keeps no more activations than there are ranks from it to the end of the pipeline,
// whatever the number of microbatches: rank r runs p - 1 - r forward passes ahead, by which time the first microbatch comes
// back.
//
// Cost      a bubble of (p - 1) / m of the computation, for p ranks and m microbatches; min(m, p - r) live activations on
//           rank r
// Source    Narayanan et al., Memory-Efficient Pipeline-Parallel DNN Training, 2021, where it is PipeDream-Flush
struct one_forward_one_backward : pipeline_schedule_defaults {
  static constexpr std::string_view name = "1f1b";

  constexpr pipeline_action at(pipeline_shape s, int rank, int i) const {
    auto const [pass, microbatch] = tutti::detail::pass_in_turn::at(s.microbatches, warm_up(s, rank), i);
    return {pass, rank, microbatch};
  }
  constexpr int live(pipeline_shape s, int rank) const {
    return tutti::detail::pass_in_turn::live(s.microbatches, warm_up(s, rank));
  }

 private:
  static constexpr int warm_up(pipeline_shape s, int rank) { return std::min(s.microbatches, s.ranks - 1 - rank); }
};

static_assert(pipeline_schedule<one_forward_one_backward>);

}  // namespace tutti::training
