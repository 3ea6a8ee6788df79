// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// An operation with an epilogue is refused for scans.
// expect: has no meaning for the prefixes of a scan
#include <vector>

#include "tutti/tutti.hpp"

void call(tutti::communicator<tutti::loopback>& comm, std::vector<float>& data) {
#ifdef TUTTI_CONTROL
  tutti::scan(comm, data, tutti::sum{});
#else
  tutti::scan(comm, data, tutti::mean{});
#endif
}
