// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The time of MPI_Comm_dup, some MPI_Allreduce of one int and MPI_Comm_free, for communicators.py: the first argument is the number of
// calls on each duplicate, and the second that of duplicates. Prints microseconds for each, of
// the slowest rank: the lower quartile, because other programs may disturb half of them.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <mpi.h>
#include <vector>

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int const calls = argc > 1 ? std::atoi(argv[1]) : 1, count = argc > 2 ? std::atoi(argv[2]) : 200;
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  std::vector<double> times;
  for (int i = 0; i < count; ++i) {
    PMPI_Barrier(MPI_COMM_WORLD);  // the start is the same for all contenders
    auto const begin = std::chrono::steady_clock::now();
    MPI_Comm comm = MPI_COMM_NULL;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    int const one = 1;
    int sum = 0;
    for (int k = 0; k < calls; ++k) MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, comm);
    MPI_Comm_free(&comm);
    double mine = std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin).count(),
           slowest = 0;
    PMPI_Allreduce(&mine, &slowest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    times.push_back(slowest);
  }
  std::nth_element(times.begin(), times.begin() + count / 4, times.end());
  if (rank == 0) std::printf("%.3f\n", times[static_cast<std::size_t>(count / 4)]);
  MPI_Finalize();
}
