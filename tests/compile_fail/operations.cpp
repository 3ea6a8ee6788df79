// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Objects that cannot be operations.
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tutti/tutti.hpp"

void call(tutti::communicator<tutti::loopback>& comm, std::vector<float>& data) {
  float total = 0;
#ifdef TUTTI_CONTROL
  tutti::all_reduce(comm, data, [](float a, float b) { return a < b ? b : a; });
  total = tutti::all_reduce(comm, total);
#elif TUTTI_CASE == 1  // expect: this operation cannot combine these elements
  tutti::all_reduce(comm, data, [](float a) { return a; });
#elif TUTTI_CASE == 2  // expect: this operation does not return an element
  tutti::reduce(comm, data, [](float, float) {});
#elif TUTTI_CASE == 3  // expect: an operation must be copyable
  tutti::scan(comm, data, [p = std::unique_ptr<int>()](float a, float) { return a; });
#elif TUTTI_CASE == 4  // expect: an operation is expected here, but this is a number
  tutti::all_reduce(comm, data, total);
#elif TUTTI_CASE == 5  // expect: this operation cannot combine these elements
  tutti::all_reduce(comm, data, [n = 0](float a, float b) mutable { return ++n > 1 ? a : b; });
#elif TUTTI_CASE == 6  // expect: returns the operation's identity at rank 0
  total = tutti::exclusive_scan(comm, total, [](float a, float b) { return a < b ? b : a; });
#elif TUTTI_CASE == 7  // expect: this operation cannot combine these elements
  static_cast<void>(tutti::reduce_scatter(comm, data, tutti::bit_or{}));
#elif TUTTI_CASE == 8  // expect: all_reduce_map takes a map from names to arrays or numbers
  tutti::all_reduce_map(comm, data);
#elif TUTTI_CASE == 9  // expect: this operation cannot combine these elements
  std::map<std::string, double> losses;
  tutti::all_reduce_map(comm, losses, tutti::bit_xor{});
#endif
}
