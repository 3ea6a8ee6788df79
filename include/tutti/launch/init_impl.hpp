// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Definitions of launch/init.hpp.
#pragma once

#include <atomic>
#include <memory>
#include <source_location>

#include "tutti/algorithm/concept.hpp"
#include "tutti/core/text.hpp"
#include "tutti/launch/agree.hpp"
#include "tutti/launch/init.hpp"
#include "tutti/launch/place.hpp"
#include "tutti/transport/shared_memory/rendezvous.hpp"
#include "tutti/transport/shared_memory/uncaught.hpp"

namespace tutti {

template <>
TUTTI_INLINE communicator<shm> init<shm>(detail::tuning_table const& table, std::source_location where) {
  place const me = find_place();
  if (me.size == 1) return communicator<shm>(std::make_unique<shm>());
  if (me.local_size != me.size)
    throw error(
        {.code = error_code::bad_argument,
         .rank = me.rank,
         .what = detail::join({me.launcher, " started ", me.size, " ranks, ", me.local_size,
                               " of them on this machine; shared memory ends at the machine"}),
         .way_out =
             "start them all on one machine, or include tutti/mpi.hpp and call tutti::init<tutti::hierarchical>()"});
  if (me.size > max_ranks)
    throw error({.code = error_code::bad_argument,
                 .rank = me.rank,
                 .what = detail::join({me.size, " ranks on one machine"}),
                 .way_out = detail::join({"start at most ", max_ranks})});
  static std::atomic<int> meetings{0};  // those that took place: the next call of init() meets under another name
  detail::countdown until(detail::settings::from_environment().timeout);
  int const number = meetings++;
  try {
    detail::rendezvous meeting(detail::join({me.job, "-", number}), me.rank, me.size, until);
    detail::descriptor const file = meeting.meet([&] { return shm::create(me.size, detail::all_tracks); });
    detail::share_uncaught_errors(file, me.rank);
    communicator<shm> comm(
        std::make_unique<shm>(file, me.rank, me.size, detail::all_tracks, until, meeting.take_watches()));
    detail::agree_on_tuning(comm.engine(), table);
    return comm;
  } catch (error const& e) {
    --meetings;
    throw e.in_call(where);
  } catch (...) {
    --meetings;
    throw;
  }
}

}  // namespace tutti
