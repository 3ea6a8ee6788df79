// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The stages of a pipeline, from the view of one rank: which are its own, and which messages connect them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <source_location>
#include <string>
#include <vector>

#include "tutti/training/pipeline/pipeline_options.hpp"
#include "tutti/training/schedule/dynamic.hpp"

namespace tutti::detail {

class stage_layout {
 public:
  // `sizes` as in training::activations. Throws bad_argument if these do not fit together, or if the schedule is wrong.
  stage_layout(training::dynamic_pipeline_schedule schedule, training::pipeline_options const& options,
               std::vector<std::size_t> sizes, int rank, int ranks, std::source_location where);

  int rank() const noexcept { return rank_; }
  int microbatches() const noexcept { return shape_.microbatches; }
  int stages() const noexcept { return stages_; }
  std::vector<int> const& local_stages() const noexcept { return local_; }

  // Steps of this rank.
  int steps() const noexcept { return steps_; }
  training::pipeline_action at(int step) const { return schedule_.at(shape_, rank_, step); }

  bool is_last(int stage) const noexcept { return stage == stages_ - 1; }
  bool exists(int stage) const noexcept { return stage >= 0 && stage < stages_; }
  int rank_of(int stage) const { return schedule_.rank_of(shape_, stage); }

  // The number of elements of the activation that enters a stage, and of the one that leaves it; 0 at the ends.
  std::size_t size_before(int stage) const { return stage == 0 ? 0 : sizes_[static_cast<std::size_t>(stage - 1)]; }
  std::size_t size_after(int stage) const { return is_last(stage) ? 0 : sizes_[static_cast<std::size_t>(stage)]; }
  // The same for what a pass needs from another stage.
  std::size_t size_of_need(training::pipeline_action const& a) const {
    return a.pass == training::pipeline_pass::forward ? size_before(a.stage) : size_after(a.stage);
  }

  // The place of a stage among those of this rank; an action with that in place of its stage; and a number for each stage of
  // this rank and microbatch.
  std::size_t place_of(int stage) const {
    return static_cast<std::size_t>(std::ranges::lower_bound(local_, stage) - local_.begin());
  }
  training::pipeline_action local(training::pipeline_action const& a) const {
    return {a.pass, static_cast<int>(place_of(a.stage)), a.microbatch};
  }
  std::size_t index_of(training::pipeline_action const& a) const {
    return place_of(a.stage) * static_cast<std::size_t>(shape_.microbatches) + static_cast<std::size_t>(a.microbatch);
  }

  // The tag of the message that a pass needs; verify_pipeline has found that an int suffices.
  int tag_of(training::pipeline_action const& a) const {
    return 2 * (a.stage * shape_.microbatches + a.microbatch) + (a.pass == training::pipeline_pass::backward ? 1 : 0);
  }

  // What ranks must agree on, for expect_same_lines.
  std::vector<std::string> lines() const;

 private:
  training::dynamic_pipeline_schedule schedule_;
  training::pipeline_shape shape_;
  int rank_;
  int stages_ = 0;
  int steps_ = 0;
  std::vector<std::size_t> sizes_;  // of the activations between stages
  std::vector<int> local_{};        // the stages of this rank
};

}  // namespace tutti::detail

#if !defined(TUTTI_COMPILED)
#include "tutti/training/pipeline/stage_layout_impl.hpp"
#endif
