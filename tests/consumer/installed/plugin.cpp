// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A plugin with a tutti of its own, whose symbols are hidden, as a Python extension's are.
#include <tutti/tutti.hpp>

extern "C" [[gnu::visibility("default")]] int sum_of_ranks() {
  static auto comm = tutti::init();
  return tutti::all_reduce(comm, comm.rank() + 1);
}
