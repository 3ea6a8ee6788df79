// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Writes simulated times of all_reduce on hosts of tests/simgrid/fat_tree.xml, and the predictions of analyze/simulate.hpp, as JSON
// lines for bench/simgrid.py. The arguments are a file and numbers of ranks. For more ranks than hosts it only predicts.
#include "simgrid/smpi.hpp"

#include <chrono>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

#include "tutti/analyze/simulate.hpp"
#include "tutti/mpi.hpp"

using namespace tutti;
using namespace tutti::detail;

namespace {

std::FILE* output = nullptr;  // on rank 0

constexpr algorithm_id algorithms_compared[] = {algorithm_id::binomial_tree, algorithm_id::double_binary_tree,
                                                algorithm_id::ring};
constexpr std::size_t sizes[] = {8, 1 << 10, 16 << 10, 256 << 10, 1 << 20};
// The constants of the platform: 1 us per link, two links to a host at the same switch and four to any other host.
analyze::model const fat_tree{
    .alpha = 4e-6, .beta = 8e-11, .gamma = 0, .enclosures = {{.ranks = 32, .alpha = 2e-6, .beta = 8e-11}}};

double predict(algorithm_id algorithm, int ranks, std::size_t bytes, analyze::model const& machine) {
  analyze::workload const work{static_cast<double>(bytes), static_cast<double>(mpi::slice_bytes)};
  return analyze::simulate(find_schedule(algorithm, collective::all_reduce), {ranks}, work, machine).seconds;
}

// All ranks start at the same moment.
void start_together(MPI_Comm all) {
  double latest = MPI_Wtime();
  MPI_Allreduce(MPI_IN_PLACE, &latest, 1, MPI_DOUBLE, MPI_MAX, all);
  double const start = latest + 1e-3;
  std::this_thread::sleep_for(std::chrono::duration<double>(start - MPI_Wtime()));
}

// Seconds until the last rank has its result.
double measure(communicator<mpi>& comm, MPI_Comm all, algorithm_id algorithm, std::size_t bytes) {
  std::vector<float> v(bytes / sizeof(float), 1);
  start_together(all);
  double time = -MPI_Wtime();
  all_reduce(comm, v, sum{}, {.algorithm = algorithm});
  time += MPI_Wtime();
  MPI_Allreduce(MPI_IN_PLACE, &time, 1, MPI_DOUBLE, MPI_MAX, all);
  return time;
}

void compare(MPI_Comm some, int ranks) {
  auto comm = from_mpi(some);
  for (auto const algorithm : algorithms_compared) {
    measure(comm, some, algorithm, 1 << 10);  // opens channels
    for (std::size_t const bytes : sizes) {
      if (bytes * static_cast<std::size_t>(ranks) > std::size_t{256} << 20) continue;  // all ranks are one process
      double const time = measure(comm, some, algorithm, bytes);
      if (comm.rank() > 0) continue;
      std::fprintf(output,
                   R"({"algorithm": "%s", "ranks": %d, "bytes": %zu, "us": %.2f, "predicted_us": %.2f})"
                   "\n",
                   name(algorithm).data(), ranks, bytes, time * 1e6, predict(algorithm, ranks, bytes, fat_tree) * 1e6);
      std::fflush(output);
    }
  }
}

// For hosts that are all four links apart.
void predict_alone(int ranks) {
  analyze::model far = fat_tree;
  far.enclosures.clear();
  for (auto const algorithm : algorithms_compared)
    std::fprintf(output,
                 R"({"algorithm": "%s", "ranks": %d, "bytes": 8, "predicted_us": %.2f})"
                 "\n",
                 name(algorithm).data(), ranks, predict(algorithm, ranks, 8, far) * 1e6);
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank = 0, hosts = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &hosts);
  if (argc < 3 || (rank == 0 && (output = std::fopen(argv[1], "w")) == nullptr)) {
    std::fprintf(stderr, "usage: bench_simgrid <file that can be written> <ranks>...\n");
    return 2;
  }
  for (int i = 2; i < argc; ++i) {
    int const ranks = std::atoi(argv[i]);
    if (ranks > hosts) {
      if (rank == 0) predict_alone(ranks);
      continue;
    }
    MPI_Comm some = MPI_COMM_NULL;
    MPI_Comm_split(MPI_COMM_WORLD, rank < ranks ? 0 : MPI_UNDEFINED, rank, &some);
    if (rank < ranks) compare(some, ranks);
    MPI_Barrier(MPI_COMM_WORLD);
  }
  if (rank == 0) std::fclose(output);
  MPI_Finalize();
}
