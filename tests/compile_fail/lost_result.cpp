// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A result that nobody would see is refused: that of a temporary, and calls or communicators that nobody can use.
#include <span>
#include <vector>

#include "tutti/tutti.hpp"

void call(tutti::communicator<tutti::loopback>& comm, std::vector<float>& data) {
#ifdef TUTTI_CONTROL
  tutti::broadcast(comm, std::span(data));
  tutti::persistent const sum = tutti::all_reduce(tutti::prepared(comm), data);
#elif TUTTI_CASE == 1  // expect: unused-result]
  tutti::broadcast(comm, std::vector<float>(data));
#elif TUTTI_CASE == 2  // expect: unused-result]
  tutti::all_reduce(tutti::prepared(comm), data);
#elif TUTTI_CASE == 3  // expect: the argument does not change
  float steps = 0;
  tutti::broadcast(comm, steps, 0);
#elif TUTTI_CASE == 4  // expect: the argument does not change
  float total = 0;
  tutti::all_reduce(comm, total);
#elif TUTTI_CASE == 5  // expect: the call continues without its work
  tutti::all_reduce(tutti::async(comm), data);
#elif TUTTI_CASE == 6  // expect: a communicator that is dropped closes at once
  comm.subgroup({0});
#elif TUTTI_CASE == 7  // expect: the element of this rank is returned
  int mine = 0;
  tutti::scatter(comm, data, mine);
#elif TUTTI_CASE == 8  // expect: wait for it before you read the array
  tutti::irecv(comm, data, 0);
#elif TUTTI_CASE == 9  // expect: without an output, the result is returned
  tutti::all_gather_v(comm, data);
#endif
}
