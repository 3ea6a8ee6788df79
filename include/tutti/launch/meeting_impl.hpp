// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Definitions of launch/meeting.hpp.
#pragma once

#include <memory>
#include <utility>

#include "tutti/algorithm/concept.hpp"
#include "tutti/launch/agree.hpp"
#include "tutti/launch/meeting.hpp"
#include "tutti/transport/system/uncaught.hpp"

namespace tutti::detail {

TUTTI_INLINE communicator<shm> meet_as_rank(std::string const& name, int rank, int ranks, countdown& until,
                                            program_table const& table, acquaintance others,
                                            std::chrono::nanoseconds timeout) {
  rendezvous meeting(name, rank, ranks, until, std::move(others));
  descriptor const file = meeting.meet([&] { return shm::create(ranks, all_tracks); });
  share_uncaught_errors(file, offsetof(segment_header, told), rank);
  communicator<shm> comm(std::make_unique<shm>(file, rank, ranks, all_tracks, until, meeting.take_watches()), timeout);
  agree_on_tuning(comm.engine(), table);
  return comm;
}

}  // namespace tutti::detail
