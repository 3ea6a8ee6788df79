// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Definitions of training/elastic/standing.hpp.
#pragma once

#include <cstddef>
#include <source_location>
#include <span>

#include "tutti/core/config.hpp"
#include "tutti/core/error.hpp"
#include "tutti/core/text.hpp"
#include "tutti/training/elastic/standing.hpp"

namespace tutti::detail {

TUTTI_INLINE void expect_same_steps(std::span<standing const> all, int rank, std::source_location where) {
  for (std::size_t r = 0; r < all.size(); ++r) {
    if (all[r].steps == all[0].steps) continue;
    if (all[r].is_new != 0 && static_cast<int>(r) != rank) continue;
    throw error(
        {.code = error_code::bad_argument,
         .rank = rank,
         .what = join({"run() is to take ", all[r].steps, " steps on rank ", r, ", but ", all[0].steps, " on rank 0"}),
         .way_out =
             "pass the same number on all ranks; a process that replaces a lost rank begins with the first call of "
             "run(), so make only one",
         .where = where});
  }
}

}  // namespace tutti::detail
