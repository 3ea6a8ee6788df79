// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Lets one process stand for a rank of many: the MPI says that every communicator has as many ranks as the program wants, and drops
// what is sent to the others. So the memory of one of 100,000 ranks can be counted. Exactly one source of a program may include this.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <mpi.h>

#include "tutti/mpi.hpp"

namespace tutti::testing {

inline int pretended_ranks = 0;  // 0: the MPI says the truth

// The transport of rank 0 among this many.
inline std::unique_ptr<mpi> transport_among(int ranks) {
  detail::start_mpi();
  pretended_ranks = ranks;
  return std::make_unique<mpi>(MPI_COMM_SELF, detail::all_tracks, std::chrono::seconds(60));
}

// Opens both directions between this rank and a peer on a track, as a first message to it and from it does.
inline void open_channels(mpi& transport, int peer, int track = 0) {
  transport.claim(peer, track, 8, 8);
  transport.peek(peer, track, 0);
}

}  // namespace tutti::testing

extern "C" {
int MPI_Comm_size(MPI_Comm comm, int* size) {
  if (tutti::testing::pretended_ranks == 0) return PMPI_Comm_size(comm, size);
  *size = tutti::testing::pretended_ranks;
  return MPI_SUCCESS;
}
int MPI_Irecv(void* data, int count, MPI_Datatype type, int from, int tag, MPI_Comm comm, MPI_Request* request) {
  if (tutti::testing::pretended_ranks == 0 || from == MPI_ANY_SOURCE)
    return PMPI_Irecv(data, count, type, from, tag, comm, request);
  *request = MPI_REQUEST_NULL;
  return MPI_SUCCESS;
}
}
