// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Calls with pointers and counts, as in MPI and NCCL.
#include <span>
#include <vector>

#include "tutti/tutti.hpp"

void call(tutti::communicator<tutti::loopback>& comm, std::vector<float>& data) {
  float* const in = data.data();
  float out[4]{};
#ifdef TUTTI_CONTROL
  tutti::all_reduce(comm, std::span(in, 4), out, tutti::sum{});
  tutti::all_reduce(comm, out);
  tutti::broadcast(comm, out, 0);
  tutti::recv(comm, out, 1, 0);
#elif TUTTI_CASE == 1  // expect: a pointer does not say how many elements there are
  tutti::all_reduce(comm, in, out, 4, tutti::sum{});
#elif TUTTI_CASE == 2  // expect: a pointer does not say how many elements there are
  tutti::broadcast(comm, in, 4, 0);
#elif TUTTI_CASE == 3  // expect: a pointer does not say how many elements there are
  tutti::reduce(comm, in, out, 4, tutti::sum{}, 0);
#elif TUTTI_CASE == 4  // expect: a pointer does not say how many elements there are
  tutti::recv(comm, in, 4, 1, 0);
#elif TUTTI_CASE == 5  // expect: a pointer does not say how many elements there are
  tutti::all_gather(comm, in, 4);
#endif
}
