// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Objects that cannot be operations or options.
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tutti/tutti.hpp"

template <class T>
T larger(T a, T b) {
  return a < b ? b : a;
}
float only_larger(float a, float b);

void call(tutti::communicator<tutti::loopback>& comm, std::vector<float>& data) {
  float total = 0;
  std::vector<std::size_t> const counts(1, data.size());
#ifdef TUTTI_CONTROL
  tutti::all_reduce(comm, data, [](float a, float b) { return a < b ? b : a; });
  total = tutti::all_reduce(comm, total);
  std::span<float> const out(data);
  tutti::all_reduce(comm, data, out);
  tutti::reduce(comm, data, out, {.timeout = std::chrono::minutes(2)});
  tutti::reduce(comm, data, tutti::max{}, {.timeout = std::chrono::duration<double>(0.5)});
  tutti::broadcast(comm, data, {.timeout = std::chrono::milliseconds(200)});
  tutti::gather(comm, data, out, {.timeout = std::chrono::seconds(3)});
  total = tutti::scatter(comm, data, {.timeout = std::chrono::seconds(3)});
  tutti::gather_v(comm, data, out, counts, {}, {.timeout = std::chrono::seconds(3)});
  tutti::scatter_v(comm, data, counts, out, {}, {.timeout = std::chrono::seconds(3)});
  tutti::reduce_scatter_v(comm, data, out, counts, {.timeout = std::chrono::seconds(3)});
  tutti::all_reduce(comm, data, std::plus<>());
#elif TUTTI_CASE == 1   // expect: this operation cannot combine these elements
  tutti::all_reduce(comm, data, [](float a) { return a; });
#elif TUTTI_CASE == 2   // expect: this operation does not return an element
  tutti::reduce(comm, data, [](float, float) {});
#elif TUTTI_CASE == 3   // expect: an operation must be copyable
  tutti::scan(comm, data, [p = std::unique_ptr<int>()](float a, float) { return a; });
#elif TUTTI_CASE == 4   // expect: an operation is expected here, but this is a number
  tutti::all_reduce(comm, data, total);
#elif TUTTI_CASE == 5   // expect: this operation cannot combine these elements
  tutti::all_reduce(comm, data, [n = 0](float a, float b) mutable { return ++n > 1 ? a : b; });
#elif TUTTI_CASE == 6   // expect: returns the operation's identity at rank 0
  total = tutti::exclusive_scan(comm, total, [](float a, float b) { return a < b ? b : a; });
#elif TUTTI_CASE == 7   // expect: this operation cannot combine these elements
  static_cast<void>(tutti::reduce_scatter(comm, data, tutti::bit_or{}));
#elif TUTTI_CASE == 8   // expect: all_reduce_map takes a map from names to arrays or numbers
  tutti::all_reduce_map(comm, data);
#elif TUTTI_CASE == 9   // expect: this operation cannot combine these elements
  std::map<std::string, double> losses;
  tutti::all_reduce_map(comm, losses, tutti::bit_xor{});
#elif TUTTI_CASE == 10  // expect: give a duration such as 3s
  tutti::all_reduce(comm, data, {.timeout = 3});
#elif TUTTI_CASE == 11  // expect: give a duration such as 3s
  static_cast<void>(comm.shrink({.exclude_after = 0.5}));
#elif TUTTI_CASE == 12  // expect: this is the name of several functions, or of a function template
  tutti::all_reduce(comm, data, std::max);
#elif TUTTI_CASE == 13  // expect: this is the name of several functions, or of a function template
  tutti::reduce(comm, data, larger, 0);
#elif TUTTI_CASE == 14  // expect: pass a lambda that calls it
  tutti::all_reduce(comm, data, only_larger);
#elif TUTTI_CASE == 15  // expect: would be truncated to an integer at every step
  total = static_cast<float>(tutti::all_reduce(comm, 1, std::plus<float>()));
#elif TUTTI_CASE == 16  // expect: an algorithm is named by its type before the arguments
  tutti::all_reduce(comm, data, tutti::ring{});
#elif TUTTI_CASE == 17  // expect: options name an algorithm as tutti::algorithm_id::ring
  tutti::all_reduce(comm, data, {.algorithm = tutti::ring{}});
#elif TUTTI_CASE == 18  // expect: a time limit is an option
  tutti::all_reduce(comm, data, std::chrono::seconds(3));
#elif TUTTI_CASE == 19  // expect: the options are the last argument
  tutti::all_reduce(comm, data, tutti::options(), tutti::max{});
#elif TUTTI_CASE == 20  // expect: convert this enumerator to int
  enum class roles { leader };
  tutti::broadcast(comm, data, roles::leader);
#elif TUTTI_CASE == 21  // expect: options are any of {.algorithm
  tutti::all_reduce(comm, data, {.algorihm = tutti::algorithm_id::ring});
#elif TUTTI_CASE == 22  // expect: it is gather_v(communicator, input [, output, counts, offsets or {}], root, options)
  tutti::gather_v(comm, data, std::span(data), counts, {.timeout = std::chrono::seconds(3)});
#elif TUTTI_CASE == 23  // expect: an algorithm before the arguments is named by its type
  tutti::all_reduce<tutti::algorithm_id::ring>(comm, data);
#elif TUTTI_CASE == 24  // expect: this object compares two elements
  tutti::all_reduce(comm, data, std::less<>());
#elif TUTTI_CASE == 25  // expect: this operation returns a bool, as a comparison does
  tutti::all_reduce(comm, data, [](float a, float b) { return a < b; });
#elif TUTTI_CASE == 26  // expect: options are any of {.timeout
  tutti::send(comm, data, 1, {.timeout = std::chrono::seconds(3)});
#elif TUTTI_CASE == 27  // expect: pass tutti::argmin{} or tutti::argmax{}
  static_cast<void>(tutti::all_reduce(comm, tutti::located{total, comm.rank()}, tutti::max{}));
#elif TUTTI_CASE == 28  // expect: pass tutti::argmin{} or tutti::argmax{}
  tutti::located<float> best[2]{};
  tutti::reduce(comm, best, tutti::min{}, 0);
#elif TUTTI_CASE == 29  // expect: pass tutti::located{value, comm.rank()}
  static_cast<void>(tutti::all_reduce(comm, std::pair(total, comm.rank()), tutti::argmin{}));
#elif TUTTI_CASE == 30  // expect: an operation is an argument
  tutti::all_reduce<tutti::max>(comm, data);
#elif TUTTI_CASE == 31  // expect: an operation is an object such as tutti::max{}, not a name
  tutti::all_reduce(comm, data, "max");
#endif
}
