// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// More ranks over the MPI transport than a step may have peers: no algorithm with such a step is chosen, and one that is named is refused.
#include "simgrid/smpi.hpp"

#include <cstddef>
#include <cstdio>
#include <string>
#include <vector>

#include "tutti/mpi.hpp"

using namespace tutti;

namespace {

int wrong = 0;

void expect(bool right, char const* what) {
  if (right) return;
  ++wrong;
  std::printf("WRONG: %s\n", what);
}
template <class F>
void expect_refusal(F&& f, std::string const& text) {
  try {
    f();
    expect(false, "a call was not refused");
  } catch (error const& e) {
    expect(std::string(e.what()).find(text) != std::string::npos, e.what());
  }
}

void check(communicator<mpi>& comm) {
  int const ranks = comm.size(), last = ranks - 1;
  expect(ranks > max_ranks, "there are few ranks");
  if (comm.is_main())
    for (collective const c : every_collective) {
      auto const chosen = explain<int>(comm, c, 1).algorithm;
      expect(chosen != algorithm_id::one_shot && chosen != algorithm_id::two_shot,
             "an algorithm with wide steps is chosen");
    }
  std::vector<int> sums{comm.rank(), 1};
  all_reduce(comm, sums, sum{}, {.algorithm = algorithm_id::double_binary_tree});
  expect(sums[0] == ranks * last / 2 && sums[1] == ranks, "all_reduce");
  expect_refusal(
      [&] { all_reduce(comm, sums, sum{}, {.algorithm = algorithm_id::one_shot}); },
      "one_shot cannot do all_reduce: one of its steps communicates with all ranks, of which it supports at most 1024");
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  {
    auto comm = from_mpi();
    check(comm);
    MPI_Allreduce(MPI_IN_PLACE, &wrong, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (comm.rank() == 0) std::printf("%d ranks: %s\n", comm.size(), wrong == 0 ? "right" : "WRONG");
  }
  MPI_Finalize();
  return wrong == 0 ? 0 : 1;
}
