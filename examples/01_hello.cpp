// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Every rank contributes a number and gets the sum. Started on its own, the program has one rank; `tutti-run -n 4 01_hello`,
// mpirun, srun and torchrun start more.
// ranks: 4
#include <cstdio>
#include <vector>

#include <tutti/tutti.hpp>

int main() {
  auto comm = tutti::init();
  std::vector<int> total{comm.rank() + 1};
  tutti::all_reduce(comm, total);
  int const n = comm.size(), expected = n * (n + 1) / 2;
  std::printf("hello from rank %d of %d: 1 + ... + %d = %d\n", comm.rank(), n, n, total[0]);
  return total[0] == expected ? 0 : 1;
}
