// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Definitions of training/elastic/standing.hpp.
#pragma once

#include <cstddef>

#include "tutti/core/config.hpp"
#include "tutti/core/error.hpp"
#include "tutti/core/text.hpp"
#include "tutti/training/elastic/standing.hpp"
#include "tutti/transport/absence.hpp"

namespace tutti::detail {

TUTTI_INLINE std::vector<int> numbers_of(std::span<standing const> all) {
  std::vector<int> out;
  for (standing const& one : all) out.push_back(one.number);
  return out;
}

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

TUTTI_INLINE void refuse_too_few(head_count seen, int rank, std::vector<int> const& lost, std::string const& folder,
                                 std::uint64_t saved, std::source_location where) {
  if (lost.empty() && seen.ranks == seen.most)
    throw error({.code = error_code::bad_argument,
                 .rank = rank,
                 .what = join({"elastic training needs ", seen.least, " ranks, but the job has ", seen.ranks}),
                 .way_out = "start more ranks, or lower elastic_options::min_ranks, or the minimum of --elastic",
                 .where = where});
  std::string const checkpoint = folder.empty() ? "there are no checkpoints, because no folder was named"
                                 : saved == 0   ? join({"there is no checkpoint in ", folder, " yet"})
                                              : join({"the newest checkpoint in ", folder, " is that of step ", saved});
  throw error({.code = error_code::rank_lost,
               .rank = rank,
               .peer = lost.size() == 1 ? lost[0] : -1,
               .what = join({"of ", seen.most, " ranks, ", seen.ranks, " are left, and elastic training needs ",
                             seen.least, "; lost are the members ", list_of(lost), "; ", checkpoint}),
               .way_out = "start the job again",
               .where = where});
}

TUTTI_INLINE void give_up_with_others(int rank, std::source_location where) {
  throw error({.code = error_code::revoked,
               .rank = rank,
               .what = "another rank has given up this run, although no rank is lost",
               .way_out = "check the output of the other ranks",
               .where = where});
}

}  // namespace tutti::detail
