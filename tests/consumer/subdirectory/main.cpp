// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The first of two translation units that use the same templates and inline functions.
#include <tutti/tutti.hpp>

#include <vector>

int sum_in_other_unit();

int main() {
  int sum = 0;
  tutti::run_threads(2, [&](auto& comm) {
    std::vector<int> value{comm.rank() + 1};
    tutti::all_reduce(comm, value);
    if (comm.rank() == 0) sum = value[0];
  });
  return sum == 3 && sum_in_other_unit() == 3 ? 0 : 1;
}
