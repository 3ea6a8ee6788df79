// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Rank 1 ends in the middle of the program, and each of the others finds out in a collective.
#include <csignal>
#include <cstdio>
#include <mpi.h>
#include <string>
#include <unistd.h>

int main() {
  MPI_Init(nullptr, nullptr);
  int rank = 0, sum = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  int const one = 1;
  MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  if (rank == 1) static_cast<void>(::kill(::getpid(), SIGKILL));
  int const code = MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  MPI_Error_string(code, text, &length);
  bool const right = code != MPI_SUCCESS && std::string(text).find("rank 1 (process") != std::string::npos;
  std::printf("rank %d: %s\n", rank, right ? "right" : text);
  std::fflush(stdout);
  ::_exit(0);  // MPI_Finalize may wait for rank 1
}
