// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A type that owns memory elsewhere cannot be an element.
// expect: elements travel as their bytes
#include <string>
#include <vector>

#include "tutti/tutti.hpp"

void call(tutti::communicator<tutti::loopback>& comm) {
#ifdef TUTTI_CONTROL
  std::vector<char> data(8);
#else
  std::vector<std::string> data(8);
#endif
  tutti::broadcast(comm, data);
}
