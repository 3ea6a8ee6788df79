// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Errors about ranks that were expected to join a group and did not.
#pragma once

#include <string>
#include <vector>

#include "tutti/core/error.hpp"
#include "tutti/core/text.hpp"

namespace tutti::detail {

inline constexpr char const* members_must_join =
    "all members must create this group with the same ranks in the same order; see what delays them, or raise "
    "TUTTI_TIMEOUT";

// "1, 3"
[[gnu::cold]] inline std::string list_of(std::vector<int> const& ranks) {
  std::string out;
  for (int const r : ranks) out += join({out.empty() ? "" : ", ", r});
  return out;
}

[[gnu::cold]] inline error ranks_absent(int rank, std::vector<int> const& absent, std::string const& way_out) {
  return error({.code = error_code::timeout,
                .rank = rank,
                .peer = absent.size() == 1 ? absent.front() : -1,
                .what = "timed out waiting for ranks to join: " + list_of(absent),
                .way_out = way_out});
}

[[gnu::cold]] inline error rank_gone(int rank, int peer) {
  return error({.code = error_code::rank_lost,
                .rank = rank,
                .peer = peer,
                .what = join({"rank ", peer, " has ended or closed its communicator, so it cannot join"}),
                .way_out = "see the output of that rank"});
}

}  // namespace tutti::detail
