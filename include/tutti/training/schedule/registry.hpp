// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The pipeline schedules of the library.
#pragma once

#include <string_view>
#include <vector>

#include "tutti/training/schedule/dynamic.hpp"
#include "tutti/training/schedule/gpipe.hpp"
#include "tutti/training/schedule/interleaved.hpp"
#include "tutti/training/schedule/one_forward_one_backward.hpp"

namespace tutti::training {

// All of them; those that have several stages on a rank have this many.
inline std::vector<dynamic_pipeline_schedule> pipeline_schedules(int stages_per_rank = 2) {
  return {gpipe{}, one_forward_one_backward{}, interleaved{.stages_per_rank = stages_per_rank}};
}

// The one of this name. Throws error: bad_argument, which lists the names, if there is none.
//
//   auto const schedule = tutti::training::find_pipeline_schedule("1f1b");
dynamic_pipeline_schedule find_pipeline_schedule(std::string_view name, int stages_per_rank = 2);

}  // namespace tutti::training

#if !defined(TUTTI_COMPILED)
#include "tutti/training/schedule/registry_impl.hpp"
#endif
