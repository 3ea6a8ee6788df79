// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Includes no header of tutti, whose templates are instantiated here for an operation of the program.
#include <atomic>
#include <vector>

import tutti;

int main() {
  std::atomic<int> right = 0;
  tutti::run_threads(2, [&](auto& comm) {
    std::vector<float> values(100'000, 1);
    tutti::all_reduce(comm, values, [](float a, float b) { return a + b; });
    right += values == std::vector<float>(values.size(), 2);
  });
  return right == 2 ? 0 : 1;
}
