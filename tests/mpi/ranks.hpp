// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Groups of ranks within a test that an MPI launcher started. All ranks run the same cases.
#pragma once

#include <chrono>
#include <memory>
#include <mpi.h>
#include <string>
#include <thread>

#include "tutti/mpi.hpp"

namespace tutti::testing {

// The launched ranks; MPI is initialised by the first call.
inline communicator<mpi>& world() {
  static communicator<mpi> all = from_mpi();
  return all;
}

// Waits for all launched ranks, leaving the cores to those that still work.
inline void meet() {
  MPI_Request request;
  MPI_Ibarrier(MPI_COMM_WORLD, &request);
  for (int done = 0; done == 0; MPI_Test(&request, &done, MPI_STATUS_IGNORE))
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

// Calls f(comm) on the first `ranks` launched ranks, with the communicator of make(MPI_Comm), and returns on all when
// they have finished; returns the text of an exception, or nothing.
template <class Make, class F>
std::string on_ranks(int ranks, Make&& make, F&& f) {
  bool const takes_part = world().rank() < ranks;
  MPI_Comm part = MPI_COMM_NULL;
  MPI_Comm_split(MPI_COMM_WORLD, takes_part ? 0 : MPI_UNDEFINED, world().rank(), &part);
  std::string thrown;
  if (takes_part) {
    try {
      auto comm = make(part);
      MPI_Comm_free(&part);
      f(comm);
    } catch (std::exception const& e) {
      thrown = e.what();
    }
  }
  meet();
  return thrown;
}
template <class F>
std::string on_ranks(int ranks, F&& f) {
  return on_ranks(ranks, [](MPI_Comm part) { return from_mpi(part); }, f);
}

// For on_ranks: the ranks of a tutti::hierarchical, on nodes with this many ranks each.
inline auto const hierarchical_ranks = [](MPI_Comm part) { return from_mpi<hierarchical>(part); };
inline auto on_nodes_of(int ranks) {
  return [ranks](MPI_Comm part) {
    return communicator<hierarchical>(std::make_unique<hierarchical>(
        part, detail::all_tracks, detail::settings::from_environment().timeout, world().rank() / ranks));
  };
}

}  // namespace tutti::testing
