// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Definitions of collective/coalesced.hpp.
#pragma once

#include <algorithm>
#include <functional>
#include <source_location>
#include <utility>
#include <vector>

#include "tutti/call/refuse.hpp"
#include "tutti/collective/coalesced.hpp"
#include "tutti/core/text.hpp"

namespace tutti::detail {

TUTTI_INLINE void expect_independent(std::vector<used_part> parts, int rank, std::source_location where) {
  std::ranges::sort(parts, std::ranges::less{}, &used_part::begin);
  for (auto one = parts.begin(); one != parts.end(); ++one)
    for (auto other = one + 1; other != parts.end() && other->begin < one->end; ++other)
      if (one->call != other->call && (one->is_written || other->is_written)) {
        auto const [first, second] = std::minmax(one->call, other->call);
        refuse(rank,
               join({"all_reduces start together, and number ", second + 1, " of them uses memory that number ",
                     first + 1, " also uses, and one of the two writes it"}),
               "use memory of its own for each, or put calls that depend on each other into different batches", where);
      }
}

}  // namespace tutti::detail
