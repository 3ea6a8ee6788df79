// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A result that nobody would see is refused: that of a temporary, a started call and a prepared one.
#include <span>
#include <vector>

#include "tutti/tutti.hpp"

void call(tutti::communicator<tutti::loopback>& comm, std::vector<float>& data) {
#ifdef TUTTI_CONTROL
  tutti::broadcast(comm, std::span(data));
  tutti::work const sum = tutti::all_reduce(tutti::async(comm), data);
#elif TUTTI_CASE == 1  // expect: unused-result]
  tutti::broadcast(comm, std::vector<float>(data));
#elif TUTTI_CASE == 2  // expect: unused-result]
  tutti::all_reduce(tutti::async(comm), data);
#elif TUTTI_CASE == 3  // expect: unused-result]
  tutti::all_reduce(tutti::prepared(comm), data);
#elif TUTTI_CASE == 4  // expect: unused-result]
  tutti::recv(tutti::async(comm), data, 0);
#endif
}
