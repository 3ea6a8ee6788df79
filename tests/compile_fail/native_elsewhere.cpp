// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// native is refused over a transport that has no collectives of its own.
// expect: this transport has none
#include <vector>

#include "tutti/tutti.hpp"

void call(tutti::communicator<tutti::loopback>& comm, std::vector<float>& data) {
#ifdef TUTTI_CONTROL
  tutti::all_reduce<tutti::ring>(comm, data);
#else
  tutti::all_reduce<tutti::native>(comm, data);
#endif
}
