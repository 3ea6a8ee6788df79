// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A program with a profiler, which defines MPI_ functions and calls the PMPI_ ones: these run on tutti, too.
// ranks: 2 3
// on tutti: MPI_Allreduce MPI_Bcast MPI_Iallreduce MPI_Reduce
#include <mpi.h>

#include "program.hpp"

using namespace program;

namespace {

int profiled = 0;

}  // namespace

extern "C" {

int MPI_Allreduce(void const* in, void* out, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm) {
  ++profiled;
  return PMPI_Allreduce(in, out, count, type, op, comm);
}
int MPI_Bcast(void* data, int count, MPI_Datatype type, int root, MPI_Comm comm) {
  ++profiled;
  return PMPI_Bcast(data, count, type, root, comm);
}
int MPI_Iallreduce(void const* in, void* out, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm,
                   MPI_Request* request) {
  ++profiled;
  return PMPI_Iallreduce(in, out, count, type, op, comm, request);
}
int MPI_Comm_split(MPI_Comm comm, int color, int key, MPI_Comm* made) {
  ++profiled;
  return PMPI_Comm_split(comm, color, key, made);
}

}  // extern "C"

int main() {
  return run(MPI_THREAD_SINGLE, [](int) {
    on_communicators([](MPI_Comm comm) {
      int const ranks = size_of(comm), one = 1;
      for (int i = 0; i < 3; ++i) {
        int sum = 0, later = 0, at_root = 0, sent = i;
        MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, comm);
        expect(sum, ranks, "a sum through the profiler");
        MPI_Request request = MPI_REQUEST_NULL;
        MPI_Iallreduce(&one, &later, 1, MPI_INT, MPI_SUM, comm, &request);
        MPI_Bcast(&sent, 1, MPI_INT, 0, comm);
        expect(sent, i, "a broadcast value");
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        expect(later, ranks, "a sum by a request");
        PMPI_Reduce(&one, &at_root, 1, MPI_INT, MPI_SUM, 0, comm);  // as a profiler does for itself
        if (rank_of(comm) == 0) expect(at_root, ranks, "a sum at the root");
      }
    });
    expect(profiled, 2 + 4 * 3 * 3, "the number of profiled calls");
  });
}
