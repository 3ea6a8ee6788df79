// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The second of two translation units that use the same templates and inline functions.
#include <tutti/tutti.hpp>

#include <vector>

int sum_in_other_unit() {
  int sum = 0;
  tutti::run_threads(2, [&](auto& comm) {
    std::vector<int> value{comm.rank() + 1};
    tutti::all_reduce(comm, value);
    if (comm.rank() == 0) sum = value[0];
  });
  return sum;
}
