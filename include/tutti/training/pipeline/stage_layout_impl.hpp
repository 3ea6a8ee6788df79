// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Definitions of training/pipeline/stage_layout.hpp.
#pragma once

#include <utility>

#include "tutti/call/communicator.hpp"
#include "tutti/core/config.hpp"
#include "tutti/core/text.hpp"
#include "tutti/training/pipeline/stage_layout.hpp"
#include "tutti/training/schedule/verify.hpp"

namespace tutti::detail {

TUTTI_INLINE stage_layout::stage_layout(training::dynamic_pipeline_schedule schedule,
                                        training::pipeline_options const& options, std::vector<std::size_t> sizes,
                                        int rank, int ranks, std::source_location where)
    : schedule_(std::move(schedule)), shape_{ranks, options.microbatches}, rank_(rank), sizes_(std::move(sizes)) {
  if (options.microbatches < 1)
    refuse(rank, join({"pipeline_options::microbatches is ", options.microbatches}), "use 1 or more", where);
  if (options.prefetch < 0)
    refuse(rank, join({"pipeline_options::prefetch is ", options.prefetch}), "use 0 or more", where);
  if (analyze::verdict const found = training::verify_pipeline(schedule_, shape_); !found)
    refuse(rank, join({"the pipeline schedule ", schedule_.name, " is wrong: ", found.why}),
           "correct it until verify_pipeline finds nothing", where);
  stages_ = schedule_.stages(shape_);
  steps_ = training::pipeline_steps(schedule_, shape_, rank);
  auto const between = static_cast<std::size_t>(stages_ - 1);
  if (sizes_.size() == 1) sizes_.resize(between, sizes_.front());
  if (sizes_.size() != between)
    refuse(rank, join({"there are ", sizes_.size(), " sizes of activations for ", stages_, " stages"}),
           join({"pass ", between, ", one for each stage but the last, or a single one that holds for all"}), where);
  for (int stage = 0; stage < stages_; ++stage)
    if (rank_of(stage) == rank) local_.push_back(stage);
}

TUTTI_INLINE std::vector<std::string> stage_layout::lines() const {
  std::vector<std::string> out{join({"the pipeline schedule ", schedule_.name, " with ", stages_, " stages and ",
                                     shape_.microbatches, " microbatches"})};
  for (std::size_t const n : sizes_)
    out.push_back(join({"stage ", out.size() - 1, " with an activation of ", n, " elements"}));
  return out;
}

}  // namespace tutti::detail
