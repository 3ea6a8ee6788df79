// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// from_mpi: the communicator of the ranks of an MPI communicator.
#pragma once

#include <concepts>
#include <memory>
#include <mpi.h>
#include <source_location>
#include <string>

#include "tutti/algorithm/concept.hpp"
#include "tutti/call/communicator.hpp"
#include "tutti/collective/two_level.hpp"
#include "tutti/launch/agree.hpp"
#include "tutti/launch/init.hpp"
#include "tutti/launch/place.hpp"
#include "tutti/native/mpi_collectives.hpp"
#include "tutti/transport/hierarchical/hierarchical.hpp"
#include "tutti/transport/mpi/mpi.hpp"

namespace tutti {

namespace detail {

// The launcher of another MPI starts processes of which each is the only rank of its MPI.
[[gnu::cold]] inline void expect_ranks_of_launcher(MPI_Comm ranks, int size) {
  int same = MPI_UNEQUAL;
  expect_success(MPI_Comm_compare(ranks, MPI_COMM_WORLD, &same), "MPI_Comm_compare");
  tutti::place const me = same == MPI_IDENT ? find_place() : tutti::place{};
  if (me.size > size)
    throw error({.code = error_code::bad_argument,
                 .rank = me.rank,
                 .what = join({me.launcher, " started ", me.size,
                               " ranks, but the MPI that the program is linked with has only ", size}),
                 .way_out = "start them with the launcher of that MPI (srun: --mpi=pmix)"});
}

}  // namespace detail

// Collective over `ranks`: returns when all have called it, and all destroy the returned communicator too, before
// MPI_Finalize. `ranks` is not changed and may be freed at once. If the program has not initialised MPI, from_mpi does
// (MPI_THREAD_SERIALIZED), and MPI is then finalized when the process exits. Below MPI_THREAD_SERIALIZED, the thread
// that calls this must make all calls. Below MPI_THREAD_MULTIPLE, only one thread of the process at a time may be in
// any call of any communicator, its destructor included. Algorithms are chosen as in init.
// Throws error: timeout if not all arrive (TUTTI_TIMEOUT), bad_argument, also if MPI_COMM_WORLD has fewer ranks than a
// launcher of another MPI has started, system.
//
//   tutti::communicator<tutti::mpi> comm = tutti::from_mpi();
//   tutti::all_reduce(comm, gradient);
//
// from_mpi<tutti::hierarchical>: ranks of one node (MPI_COMM_TYPE_SHARED) communicate through shared memory, and nodes
// through MPI, by the algorithm two_level. On a single node, MPI carries nothing.
template <class Transport = mpi>
  requires std::derived_from<Transport, mpi>
[[gnu::cold]] communicator<Transport> from_mpi(MPI_Comm ranks = MPI_COMM_WORLD,
                                               detail::program_table const& table = {}) {
  detail::start_mpi();
  auto const refuse = [](std::string const& what, std::string const& way_out) {
    throw error({.code = error_code::bad_argument, .what = what, .way_out = way_out});
  };
  if (ranks == MPI_COMM_NULL)
    refuse("from_mpi got MPI_COMM_NULL", "call it only on ranks that are in the communicator");
  int between = 0, size = 0;
  detail::expect_success(MPI_Comm_test_inter(ranks, &between), "MPI_Comm_test_inter");
  if (between != 0) refuse("from_mpi got an intercommunicator", "merge it with MPI_Intercomm_merge");
  detail::expect_success(MPI_Comm_size(ranks, &size), "MPI_Comm_size");
  detail::expect_ranks_of_launcher(ranks, size);
  auto const timeout = detail::settings::from_environment().timeout;
  communicator<Transport> comm(std::make_unique<Transport>(ranks, detail::all_tracks, timeout), timeout);
  detail::agree_on_tuning(comm.engine(), table);
  return comm;
}

namespace detail {

template <class Transport>
[[gnu::cold]] communicator<Transport> init_over_mpi(program_table const& table, std::source_location where) try {
  start_mpi();
  return from_mpi<Transport>(MPI_COMM_WORLD, table);
} catch (error const& e) {
  throw e.in_call(where);
}

}  // namespace detail

// init over MPI, on one machine or several: the ranks that the launcher of the MPI started.
// Throws error as from_mpi, and bad_argument if the launcher has started more ranks than MPI has.
//
//   auto comm = tutti::init<tutti::hierarchical>();    // inside nodes over shared memory
//   auto flat = tutti::init<tutti::mpi>();             // between all ranks over MPI
template <>
[[gnu::cold]] inline communicator<hierarchical> init<hierarchical>(detail::program_table const& table,
                                                                   std::source_location where) {
  return detail::init_over_mpi<hierarchical>(table, where);
}
template <>
[[gnu::cold]] inline communicator<mpi> init<mpi>(detail::program_table const& table, std::source_location where) {
  return detail::init_over_mpi<mpi>(table, where);
}

}  // namespace tutti
