// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// An algorithm that sends partial results is refused for an operation that rounds once, with the way out.
// expect: use tutti::two_shot or tutti::one_shot
#include <vector>

#include "tutti/tutti.hpp"

void call(tutti::communicator<tutti::loopback>& comm, std::vector<float>& data) {
#ifdef TUTTI_CONTROL
  tutti::all_reduce<tutti::two_shot>(comm, data, tutti::reproducible_sum{});
  tutti::all_reduce<tutti::ring>(comm, data);
#else
  tutti::all_reduce<tutti::ring>(comm, data, tutti::reproducible_sum{});
#endif
}
