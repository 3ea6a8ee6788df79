// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A result that nobody would see is refused.
// expect: unused-result]
#include <span>
#include <vector>

#include "tutti/tutti.hpp"

void call(tutti::communicator<tutti::loopback>& comm, std::vector<float>& data) {
#ifdef TUTTI_CONTROL
  tutti::broadcast(comm, std::span(data));
#else
  tutti::broadcast(comm, std::vector<float>(data));
#endif
}
