// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// One rank alone, without a launcher.
#include <vector>

#include "tutti/mpi.hpp"

int main() {
  auto comm = tutti::from_mpi();
  std::vector<float> values(100, 1);
  tutti::all_reduce(comm, values);
  return comm.size() == 1 && values.front() == 1 ? 0 : 1;
}
