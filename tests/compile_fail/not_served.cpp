// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// An algorithm that does not serve a collective is refused with a sentence.
// expect: this algorithm does not serve this collective
#include <vector>

#include "tutti/tutti.hpp"

void call(tutti::communicator<tutti::loopback>& comm, std::vector<float>& data) {
#ifdef TUTTI_CONTROL
  tutti::broadcast<tutti::ring>(comm, data);
#else
  tutti::broadcast<tutti::bruck>(comm, data);
#endif
}
