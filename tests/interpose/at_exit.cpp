// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Global objects that initialise MPI before main, and make the last calls after it.
// ranks: 2
// on tutti: MPI_Allreduce
#include <cstdio>
#include <cstdlib>
#include <mpi.h>

namespace {

int sum_of_ones(MPI_Comm comm) {
  int const one = 1;
  int sum = 0;
  MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, comm);
  return sum;
}

struct environment {
  environment() { MPI_Init(nullptr, nullptr); }
  ~environment() {
    int ranks = 0;
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    int const sum = sum_of_ones(MPI_COMM_WORLD);
    if (sum == ranks) MPI_Finalize();
    else std::fprintf(stderr, "a sum after main is %d instead of %d\n", sum, ranks), std::_Exit(1);
  }
} const all;

}  // namespace

// What rank 0 alone uses first in main is destroyed before `all`.
int main() {
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  for (int i = 0; rank == 0 && i < 10; ++i)
    if (sum_of_ones(MPI_COMM_SELF) != 1) std::_Exit(1);
}
