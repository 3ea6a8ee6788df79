// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What ranks of elastic training tell each other when they meet in a new group.
#pragma once

#include <cstdint>
#include <source_location>
#include <span>
#include <string>
#include <vector>

#include "tutti/training/elastic/snapshots.hpp"

namespace tutti::detail {

// What a rank tells the others when it is in a new group.
struct standing {
  moment last{};            // its last snapshot, if it has any
  std::uint64_t saved = 0;  // the step of the last checkpoint that it knows of
  std::uint64_t steps = 0;  // the last step that it is to take
  std::int32_t number = 0;  // of the member
  std::int32_t most_ranks = 0;
  std::int32_t has_snapshot = 0;
  std::int32_t is_new = 0;
};

// By rank.
[[gnu::cold]] std::vector<int> numbers_of(std::span<standing const> all);

// Ranks with other numbers of steps would leave the loop while the rest wait for them. New ones among them go alone. `all`: by
// rank. Throws error: bad_argument.
[[gnu::cold]] void expect_same_steps(std::span<standing const> all, int rank, std::source_location where);

struct head_count {
  int ranks, least, most;  // that are left, that are needed, and that there have been at once
};
// Too few ranks are left. `lost`: the numbers of members; `saved`: the step of the newest checkpoint in `folder`. Throws error:
// rank_lost.
[[noreturn, gnu::cold]] void refuse_too_few(head_count seen, int rank, std::vector<int> const& lost,
                                            std::string const& folder, std::uint64_t saved, std::source_location where);
// Another rank does not go on, although none is lost. Throws error: revoked.
[[noreturn, gnu::cold]] void give_up_with_others(int rank, std::source_location where);

}  // namespace tutti::detail

#if !defined(TUTTI_COMPILED)
#include "tutti/training/elastic/standing_impl.hpp"
#endif
