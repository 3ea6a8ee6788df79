// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Proves that a pipeline schedule is right for given ranks and microbatches.
#pragma once

#include <string>

#include "tutti/analyze/verdict.hpp"
#include "tutti/training/schedule/dynamic.hpp"

namespace tutti {
namespace training {

// Whether every microbatch passes forward and backward through every stage exactly once, backward after forward; no rank
// waits for ever for a pass of another; and every rank keeps as many activations as live() says, no more and no fewer. If
// not, the verdict names rank, step, stage and microbatch.
//
//   tutti::analyze::verdict const found = verify_pipeline(gpipe{}, {.ranks = 4, .microbatches = 8});
//   if (!found) std::puts(found.why.c_str());
analyze::verdict verify_pipeline(dynamic_pipeline_schedule const& schedule, pipeline_shape s);

}  // namespace training

namespace detail {

// "the forward pass of microbatch 3 at stage 1"
std::string describe_pass(training::pipeline_action const& a);

}  // namespace detail
}  // namespace tutti

#if !defined(TUTTI_COMPILED)
#include "tutti/training/schedule/verify_impl.hpp"
#endif
