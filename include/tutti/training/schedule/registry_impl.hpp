// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Definitions of training/schedule/registry.hpp.
#pragma once

#include <string>

#include "tutti/core/config.hpp"
#include "tutti/core/error.hpp"
#include "tutti/core/text.hpp"
#include "tutti/training/schedule/registry.hpp"

namespace tutti::training {

TUTTI_INLINE dynamic_pipeline_schedule find_pipeline_schedule(std::string_view name, int stages_per_rank) {
  std::string all;
  for (dynamic_pipeline_schedule const& some : pipeline_schedules(stages_per_rank)) {
    if (some.name == name) return some;
    all += tutti::detail::join({all.empty() ? "" : ", ", some.name});
  }
  throw error({.code = error_code::bad_argument,
               .what = tutti::detail::join({"\"", name, "\" is not a pipeline schedule"}),
               .way_out = "the schedules are: " + all});
}

}  // namespace tutti::training
