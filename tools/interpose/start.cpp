// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The functions that initialise and finalize MPI.
#include <cstdio>
#include <mpi.h>

#include "binding.hpp"
#include "callers.hpp"
#include "loaded_mpis.hpp"
#include "statistics.hpp"

extern "C" {

int MPI_Init(int* argc, char*** argv) {
  interpose::expect_one_mpi();
  int const code = PMPI_Init(argc, argv);
  if (code == MPI_SUCCESS) interpose::start();
  return code;
}

int MPI_Init_thread(int* argc, char*** argv, int required, int* provided) {
  interpose::expect_one_mpi();
  int const code = PMPI_Init_thread(argc, argv, required, provided);
  if (code == MPI_SUCCESS) interpose::start();
  return code;
}

int MPI_Finalize() {
  int rank = 0;
  PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
  interpose::stop();
  int const code = PMPI_Finalize();
  if (rank == 0 && interpose::counted.wanted()) std::fputs(interpose::counted.text().c_str(), stderr);
  return code;
}

INTERPOSE_ALL(Init, (int* argc, char*** argv), argc, argv)
INTERPOSE_ALL(Init_thread, (int* argc, char*** argv, int required, int* provided), argc, argv, required, provided)
INTERPOSE_ALL(Finalize, ())

}  // extern "C"
