// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// from_mpi: the communicator of the ranks of an MPI communicator.
#pragma once

#include <memory>
#include <mpi.h>
#include <string>

#include "tutti/algorithm/concept.hpp"
#include "tutti/collective/agree.hpp"
#include "tutti/collective/communicator.hpp"
#include "tutti/execute/mpi_collectives.hpp"
#include "tutti/transport/mpi.hpp"

namespace tutti {

// All ranks of `ranks` call it, and it returns when all have; they destroy what they get together too, before MPI_Finalize.
// `ranks` stays as it was, and may be freed at once. MPI is initialised where the program has not (MPI_THREAD_SERIALIZED),
// and is then finalized when the process exits. With less than MPI_THREAD_SERIALIZED the thread that calls this must make
// all calls, and with less than MPI_THREAD_MULTIPLE one thread of the process at a time may be in any call of any
// communicator, its end included. Algorithms are chosen as in init.
// Throws error: timeout where not all come (TUTTI_TIMEOUT), bad_argument, system.
//
//   tutti::communicator<tutti::mpi> comm = tutti::from_mpi();
//   tutti::all_reduce(comm, gradient);
[[gnu::cold]] inline communicator<mpi> from_mpi(MPI_Comm ranks = MPI_COMM_WORLD, tuning_table const& table = shipped) {
  start_mpi();
  auto const refuse = [](std::string const& what, std::string const& way_out) {
    throw error({.code = error_code::bad_argument, .what = what, .way_out = way_out});
  };
  if (ranks == MPI_COMM_NULL)
    refuse("from_mpi got MPI_COMM_NULL", "call it on the ranks that are in the communicator alone");
  int between = 0, size = 0;
  expect_success(MPI_Comm_test_inter(ranks, &between), "MPI_Comm_test_inter");
  if (between != 0) refuse("from_mpi got an intercommunicator", "merge it by MPI_Intercomm_merge");
  expect_success(MPI_Comm_size(ranks, &size), "MPI_Comm_size");
  if (size > max_ranks) refuse(join({"an MPI communicator of ", size, " ranks"}), join({"use at most ", max_ranks}));
  communicator<mpi> comm(std::make_unique<mpi>(ranks, max_tracks, settings::from_environment().timeout));
  detail::agree_on_tuning(comm.group(), table);
  return comm;
}

}  // namespace tutti
