// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// GPipe: all forward passes, then all backward passes.
#pragma once

#include <string_view>

#include "tutti/training/schedule/schedule.hpp"

namespace tutti::training {

// The simplest schedule, and the one that keeps most: every rank keeps the activations of all microbatches.
// Backward passes run in the order of the microbatches, not in the reverse order of the paper's picture, which takes as long;
// so every schedule of tutti adds up the gradients of microbatches in the same order.
//
// Cost      a bubble of (p - 1) / m of the computation, for p ranks and m microbatches; m live activations
// Source    Huang et al., GPipe: Efficient Training of Giant Neural Networks using Pipeline Parallelism, 2019
struct gpipe : pipeline_schedule_defaults {
  static constexpr std::string_view name = "gpipe";

  constexpr pipeline_action at(pipeline_shape s, int rank, int i) const {
    auto const [pass, microbatch] = tutti::detail::pass_in_turn::at(s.microbatches, s.microbatches, i);
    return {pass, rank, microbatch};
  }
  constexpr int live(pipeline_shape s, int) const { return s.microbatches; }
};

static_assert(pipeline_schedule<gpipe>);

}  // namespace tutti::training
