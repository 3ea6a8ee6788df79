// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// init: the communicator of all ranks that a launcher started, or of a single rank.
#pragma once

#include <source_location>

#include "tutti/call/accepted.hpp"
#include "tutti/call/communicator.hpp"
#include "tutti/launch/usual.hpp"
#include "tutti/transport/shared_memory/shm.hpp"
#include "tutti/tune/text.hpp"

namespace tutti {

// Finds its ranks from tutti-run, mpirun (Open MPI, MPICH), srun or torchrun, all on this machine, and returns when all
// of them have called it. Without a launcher it returns a communicator of one rank. All ranks may call it again to get
// a further communicator of the same ranks.
// Algorithms are chosen by the tuning table of rank 0: the file TUTTI_TUNING, else `table` if the program passes one,
// else ~/.config/tutti/tuning, which tutti-tune writes, else the table that tutti ships. With TUTTI_TOPOLOGY=measure,
// the latency and bandwidth between ranks are measured first; see call/topology.hpp.
// Throws error: timeout with the ranks that did not arrive (TUTTI_TIMEOUT), bad_argument for a contradictory
// environment or ranks on several machines, system.
//
//   int main() {
//     auto comm = tutti::init();
//     ...
//   }
template <class Transport = shm>
communicator<Transport> init(detail::program_table const& = {},
                             std::source_location = std::source_location::current()) {
  static_assert(detail::never<Transport>,
                "init finds ranks over tutti::shm or, where tutti/mpi.hpp is included, over tutti::mpi and "
                "tutti::hierarchical; ranks that are threads start by tutti::run_threads");
}

template <>
[[gnu::cold]] communicator<shm> init<shm>(detail::program_table const& table, std::source_location where);

}  // namespace tutti

#if !defined(TUTTI_COMPILED)
#include "tutti/launch/init_impl.hpp"
#endif
