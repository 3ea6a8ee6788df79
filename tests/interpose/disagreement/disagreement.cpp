// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The MPI makes the non-blocking reduction of rank 1, because of its operation, its type or, with `both`, those of all, which differ in
// their count. The default handler of errors ends the program.
#include <mpi.h>
#include <string_view>

namespace {

void add(void* in, void* in_out, int* count, MPI_Datatype*) {
  for (int i = 0; i < *count; ++i) static_cast<double*>(in_out)[i] += static_cast<double*>(in)[i];
}

}  // namespace

int main(int argc, char** argv) {
  std::string_view const differs = argc > 1 ? argv[1] : "";
  MPI_Init(nullptr, nullptr);
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Op own = MPI_OP_NULL;
  MPI_Op_create(&add, 1, &own);
  alignas(long double) double const in[2] = {};
  alignas(long double) double out[2] = {};
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Request request = MPI_REQUEST_NULL;
  bool const odd = rank == 1;
  if (differs == "both") MPI_Iallreduce(in, out, odd ? 1 : 2, MPI_DOUBLE, own, MPI_COMM_WORLD, &request);
  else if (odd && differs == "type") MPI_Iallreduce(in, out, 1, MPI_LONG_DOUBLE, MPI_SUM, MPI_COMM_WORLD, &request);
  else MPI_Iallreduce(in, out, 2, MPI_DOUBLE, odd ? own : MPI_SUM, MPI_COMM_WORLD, &request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  MPI_Finalize();
}
