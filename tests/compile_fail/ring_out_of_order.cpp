// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// An algorithm that loses rank order is refused for an operation that needs it, with the way out.
// expect: use tutti::binomial_tree or tutti::one_shot, or mark the operation with tutti::commutative
#include <vector>

#include "tutti/tutti.hpp"

void call(tutti::communicator<tutti::loopback>& comm, std::vector<float>& data) {
  auto const first = [](float a, float) { return a; };
#ifdef TUTTI_CONTROL
  tutti::all_reduce<tutti::binomial_tree>(comm, data, first);
  tutti::all_reduce<tutti::ring>(comm, data, tutti::commutative(first));
#else
  tutti::all_reduce<tutti::ring>(comm, data, first);
#endif
}
