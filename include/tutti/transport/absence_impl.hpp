// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Definitions of transport/absence.hpp.
#pragma once

#include <utility>

#include "tutti/core/text.hpp"
#include "tutti/transport/absence.hpp"

namespace tutti::detail {

TUTTI_INLINE std::string list_of(std::vector<int> const& ranks) {
  std::string out;
  for (int const r : ranks) append(out, {out.empty() ? "" : ", ", r});
  return out;
}

TUTTI_INLINE std::string in_part(std::vector<int> const& members, error const& e) {
  return join({"in its part between the ranks {", list_of(members), "}, renumbered from 0: ", e.happened()});
}

TUTTI_INLINE absent_ranks::absent_ranks(int rank, std::vector<int> absent, std::string_view way_out)
    : error({.code = error_code::timeout,
             .rank = rank,
             .peer = absent.size() == 1 ? absent.front() : -1,
             .what = join({"timed out waiting for rank", absent.size() == 1 ? " " : "s ", list_of(absent), " to join"}),
             .way_out = std::string(way_out)}),
      all_(std::move(absent)) {}

TUTTI_INLINE std::vector<int> ranks_of_handled_error() try { throw; } catch (absent_ranks const& several) {
  return several.all();
} catch (error const& one) {
  return {one.peer()};
}

TUTTI_INLINE error rank_gone(int rank, int peer) {
  return error({.code = error_code::rank_lost,
                .rank = rank,
                .peer = peer,
                .what = join({"rank ", peer, " has ended or closed its communicator, so it cannot join"}),
                .way_out = "check the output of that rank"});
}

TUTTI_INLINE error rank_votes(int rank, int peer, int cause, bool left) {
  std::string const loss =
      cause < 0 ? "" : join({"rank ", cause, left ? " has closed its communicator, and " : " has ended, and "});
  return error({.code = cause < 0 ? error_code::revoked
                        : left    ? error_code::rank_left
                                  : error_code::rank_lost,
                .rank = rank,
                .peer = cause < 0 ? peer : cause,
                .what = join({loss, "rank ", peer, " waits in agree or shrink, so it cannot join"}),
                .way_out = "call agree or shrink on this rank, too"});
}

}  // namespace tutti::detail
