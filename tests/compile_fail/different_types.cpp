// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Input and output of one call have one type.
// expect: input and output have different element types
#include <vector>

#include "tutti/tutti.hpp"

void call(tutti::communicator<tutti::loopback>& comm, std::vector<float>& in) {
#ifdef TUTTI_CONTROL
  std::vector<float> out(in.size());
#else
  std::vector<double> out(in.size());
#endif
  tutti::all_gather(comm, in, out);
}
