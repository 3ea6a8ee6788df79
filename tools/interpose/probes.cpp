// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The functions that ask whether a message or an access has arrived, and do not let every MPI progress (requests.cpp has those that ask
// for requests).
#include <mpi.h>

#include "binding.hpp"
#include "callers.hpp"

extern "C" {

int MPI_Iprobe(int source, int tag, MPI_Comm comm, int* found, MPI_Status* status) {
  return interpose::ask_for_arrivals(found, [&] { return PMPI_Iprobe(source, tag, comm, found, status); });
}
int MPI_Improbe(int source, int tag, MPI_Comm comm, int* found, MPI_Message* message, MPI_Status* status) {
  return interpose::ask_for_arrivals(found, [&] { return PMPI_Improbe(source, tag, comm, found, message, status); });
}
int MPI_Win_test(MPI_Win window, int* ended) {
  return interpose::ask_for_arrivals(ended, [&] { return PMPI_Win_test(window, ended); });
}

INTERPOSE_PMPI(Iprobe, (int source, int tag, MPI_Comm comm, int* found, MPI_Status* status), source, tag, comm, found,
               status)
INTERPOSE_PMPI(Improbe, (int source, int tag, MPI_Comm comm, int* found, MPI_Message* message, MPI_Status* status),
               source, tag, comm, found, message, status)
INTERPOSE_PMPI(Win_test, (MPI_Win window, int* ended), window, ended)

}  // extern "C"
