// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Draws a pipeline schedule, ranks against time, as text and as SVG.
#pragma once

#include <iosfwd>

#include "tutti/training/schedule/dynamic.hpp"
#include "tutti/training/schedule/simulate.hpp"

namespace tutti::training {

// Draws a schedule as text: a row for each rank, a column for each unit of time, in which times are whole numbers. F3 is the
// forward pass of microbatch 3, B3 its backward pass, which "--" continues. Where ranks have several stages, a letter
// says which of the rank's it is. 1F1B on two ranks:
//
//   time    0  1  2  3  4  5  6  7  8  9  10 11
//   rank 0  F0 F1 .  .  B0 -- F2 B1 -- .  B2 --
//   rank 1  .  F0 B0 -- F1 B1 -- F2 B2 --
void draw_pipeline_text(std::ostream& to, dynamic_pipeline_schedule const& schedule, pipeline_shape s,
                        pipeline_times const& times = {});

// The same as an SVG picture, in which times may be any: forward passes are blue, backward passes green, and the number is that
// of the microbatch. The later a stage among those of its rank, the lighter it is.
void draw_pipeline_svg(std::ostream& to, dynamic_pipeline_schedule const& schedule, pipeline_shape s,
                       pipeline_times const& times = {});

}  // namespace tutti::training

#if !defined(TUTTI_COMPILED)
#include "tutti/training/schedule/draw_impl.hpp"
#endif
