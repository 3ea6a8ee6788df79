// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Definitions of call/refuse.hpp.
#pragma once

#include "tutti/call/refuse.hpp"

namespace tutti::detail {

TUTTI_INLINE void refuse(int rank, std::string_view what, std::string_view way_out, std::source_location where) {
  if (rank == moved_from)
    refuse(-1, "this communicator was moved from, so it has no ranks", "use the communicator that it was moved to",
           where);
  throw error({.code = error_code::bad_argument,
               .rank = rank,
               .what = std::string(what),
               .way_out = std::string(way_out),
               .where = where});
}

TUTTI_INLINE void refuse_negative_timeout(int rank, std::source_location where) {
  refuse(rank, "options::timeout is negative or not a number", "set a positive time, or 0 for that of the communicator",
         where);
}

TUTTI_INLINE void check_members(std::vector<int> const& members, int rank, int ranks, std::source_location where) {
  std::vector<bool> listed(static_cast<std::size_t>(ranks));
  for (int const m : members) {
    if (m < 0 || m >= ranks)
      refuse(rank,
             join({"the list of a group contains rank ", m, ", but the communicator has only ", ranks,
                   ranks == 1 ? " rank" : " ranks"}),
             join({"list ranks from 0 to ", ranks - 1}), where);
    if (listed[static_cast<std::size_t>(m)])
      refuse(rank, join({"the list of a group contains rank ", m, " twice"}), "list every rank once", where);
    listed[static_cast<std::size_t>(m)] = true;
  }
  if (!listed[static_cast<std::size_t>(rank)])
    refuse(rank, join({"rank ", rank, " creates a group whose list does not contain it: {", list_of(members), "}"}),
           "let only the listed ranks create the group", where);
}

}  // namespace tutti::detail
