// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Interleaved 1F1B: several stages on each rank, so a microbatch passes through the ranks several times.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string_view>

#include "tutti/core/partition.hpp"
#include "tutti/training/schedule/schedule.hpp"

namespace tutti::training {

// Stage q is on rank q modulo p. A stage is a smaller part of the model, so the pipeline fills sooner, and the bubble is
// divided by v, the number of stages on a rank; but there are v times as many messages, and more activations are kept.
//
// Microbatches go in groups of p: a group passes through a stage of the rank, then through the rank's next one. If p does not
// divide their number, groups are larger, in sizes that differ by at most one. (Megatron-LM refuses that.)
//
// Cost      a bubble of (p - 1) / (v m) of the computation if p divides the number m of microbatches; on rank r,
//           min(v m, (v - 1) g + 2 (p - 1 - r) + 1) live activations, each of one stage, where g is the largest group
// Source    Narayanan et al., Efficient Large-Scale Language Model Training on GPU Clusters Using Megatron-LM, 2021, 2.2
struct interleaved {
  static constexpr std::string_view name = "interleaved";

  int stages_per_rank = 2;

  constexpr int stages(pipeline_shape s) const { return s.ranks * stages_per_rank; }
  constexpr int rank_of(pipeline_shape s, int stage) const { return stage % s.ranks; }

  constexpr pipeline_action at(pipeline_shape s, int rank, int i) const {
    auto const [pass, number] = tutti::detail::pass_in_turn::at(total(s), warm_up(s, rank), i);
    auto const [first, count, offset] = group_of(s, number);
    int const turn = offset / count;  // of the rank's stages
    int const local = pass == pipeline_pass::forward ? turn : stages_per_rank - 1 - turn;
    return {pass, local * s.ranks + rank, first + offset % count};
  }
  constexpr int live(pipeline_shape s, int rank) const {
    return tutti::detail::pass_in_turn::live(total(s), warm_up(s, rank));
  }

 private:
  // The group of microbatches that contains a pass, and the place of the pass among the group's.
  struct place {
    int first, count, offset;
  };
  constexpr place group_of(pipeline_shape s, int number) const {
    even_parts const all = groups(s);
    int const small = static_cast<int>(all.each), extra = static_cast<int>(all.extra);
    int const of_large = extra * (small + 1) * stages_per_rank;  // the passes of the larger groups, which are first
    if (number < of_large) {
      int const size = (small + 1) * stages_per_rank;
      return {number / size * (small + 1), small + 1, number % size};
    }
    int const size = small * stages_per_rank, later = number - of_large;
    return {extra * (small + 1) + later / size * small, small, later % size};
  }
  static constexpr even_parts groups(pipeline_shape s) {
    return {static_cast<std::size_t>(s.microbatches), std::max(1, s.microbatches / s.ranks)};
  }

  constexpr int total(pipeline_shape s) const { return s.microbatches * stages_per_rank; }
  // The first group through all stages but the last, and the time of a microbatch from here to the last rank and back.
  constexpr int warm_up(pipeline_shape s, int rank) const {
    int const largest = static_cast<int>(groups(s).at(0).count);
    return std::min(total(s), (stages_per_rank - 1) * largest + 2 * (s.ranks - 1 - rank));
  }
};

static_assert(pipeline_schedule<interleaved>);

}  // namespace tutti::training
