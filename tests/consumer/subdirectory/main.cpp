// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The least that a consumer can do: two ranks as threads add a number each.
#include <tutti/tutti.hpp>

#include <vector>

int main() {
  int sum = 0;
  tutti::run_threads(2, [&](auto& comm) {
    std::vector<int> value{comm.rank() + 1};
    tutti::all_reduce(comm, value);
    if (comm.rank() == 0) sum = value[0];
  });
  return sum == 3 ? 0 : 1;
}
