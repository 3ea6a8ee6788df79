// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// init: the communicator of all ranks that a launcher started, or of one rank alone.
#pragma once

#include <atomic>
#include <memory>
#include <string>

#include "tutti/algorithm/concept.hpp"
#include "tutti/call/communicator.hpp"
#include "tutti/launch/agree.hpp"
#include "tutti/launch/place.hpp"
#include "tutti/transport/shared_memory/rendezvous.hpp"
#include "tutti/transport/shared_memory/shm.hpp"

namespace tutti {

// Finds its ranks from tutti-run, mpirun (Open MPI, MPICH), srun or torchrun, all on this machine, and returns when all of
// them have called it; without a launcher it returns a communicator of one rank. May be called again, by all ranks, for
// a further communicator of the same ranks.
// Algorithms are chosen by the tuning table of rank 0: the file TUTTI_TUNING, else `table` where the program names one, else
// ~/.config/tutti/tuning, which tutti-tune writes, else what tutti ships. Where it has TUTTI_TOPOLOGY=measure, what messages
// take is measured first; see call/topology.hpp.
// Throws error: timeout with the ranks that did not come (TUTTI_TIMEOUT), bad_argument for an environment that makes no
// sense or ranks on several machines, system.
//
//   int main() {
//     auto comm = tutti::init();
//     ...
//   }
template <class Transport = shm>
communicator<Transport> init(detail::tuning_table const& table = detail::shipped) = delete;

template <>
[[gnu::cold]] inline communicator<shm> init<shm>(detail::tuning_table const& table) {
  place const me = find_place();
  if (me.size == 1) return communicator<shm>(std::make_unique<shm>());
  if (me.local_size != me.size)
    throw error({.code = error_code::bad_argument,
                 .rank = me.rank,
                 .what = me.launcher + " started " + std::to_string(me.size) + " ranks, " +
                         std::to_string(me.local_size) + " of them on this machine; shared memory ends at the machine",
                 .way_out = "start all on one, or include tutti/mpi.hpp and call tutti::init<tutti::hierarchical>()"});
  if (me.size > max_ranks)
    throw error({.code = error_code::bad_argument,
                 .rank = me.rank,
                 .what = std::to_string(me.size) + " ranks on one machine",
                 .way_out = "start at most " + std::to_string(max_ranks)});
  static std::atomic<int> meetings{0};  // ranks that call init() again meet under another name
  auto const until = detail::deadline::after(detail::settings::from_environment().timeout);
  detail::rendezvous meeting(me.job + "-" + std::to_string(meetings++), me.rank, me.size, until);
  detail::descriptor const file = meeting.meet([&] { return shm::create(me.size, detail::all_tracks); });
  communicator<shm> comm(std::make_unique<shm>(file, me.rank, me.size, detail::all_tracks, until));
  detail::agree_on_tuning(comm.engine(), table);
  return comm;
}

}  // namespace tutti
