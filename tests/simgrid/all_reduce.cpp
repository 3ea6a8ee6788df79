// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// all_reduce over the MPI transport on the 1,024 hosts of a simulated fat tree: right values, by every algorithm whose
// ranks have few peers.
#include "simgrid/smpi.hpp"

#include <cstddef>
#include <cstdio>
#include <numeric>
#include <string_view>
#include <vector>

#include "tutti/mpi.hpp"

using namespace tutti;
using namespace tutti::detail;

namespace {

// Whether it was right on all ranks.
bool check(communicator<mpi>& comm, algorithm_id algorithm, std::size_t count) {
  std::vector<int> v(count);
  std::iota(v.begin(), v.end(), comm.rank());
  double const begin = MPI_Wtime();
  all_reduce(comm, v, sum{}, {.algorithm = algorithm});
  double const end = MPI_Wtime();
  int const ranks = comm.size(), first = ranks * (ranks - 1) / 2;
  int right = 1;
  for (std::size_t i = 0; i < count; ++i)
    if (v[i] != first + ranks * static_cast<int>(i)) right = 0;
  MPI_Allreduce(MPI_IN_PLACE, &right, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
  if (comm.rank() == 0)
    std::printf("%s of %zu int by %d ranks: %s, %.1f us\n", name(algorithm).data(), count, ranks,
                right != 0 ? "right" : "WRONG", (end - begin) * 1e6);
  return right != 0;
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  bool right = true;
  {
    auto comm = from_mpi();
    for (auto const algorithm : {algorithm_id::binomial_tree, algorithm_id::double_binary_tree,
                                 algorithm_id::recursive_doubling, algorithm_id::recursive_halving})
      for (std::size_t const count : {3u, 2051u}) right = check(comm, algorithm, count) && right;
    right = check(comm, algorithm_id::ring, 3) && right;  // with a message in every step: two million, for minutes
  }
  MPI_Finalize();
  return right ? 0 : 1;
}
