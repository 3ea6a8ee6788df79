// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Calls with pointers and counts, as in MPI and NCCL.
#include <chrono>
#include <cstddef>
#include <span>
#include <vector>

#include "tutti/tutti.hpp"

using namespace std::chrono_literals;

struct operation_of_another_library;
extern operation_of_another_library* foreign_sum;

void call(tutti::communicator<tutti::loopback>& comm, std::vector<float>& data) {
  float* const in = data.data();
  float out[4]{};
  int numbers[4]{};
#ifdef TUTTI_CONTROL
  tutti::all_reduce(comm, std::span(in, 4), out, tutti::sum{});
  tutti::all_reduce(comm, out);
  tutti::broadcast(comm, out, 0);
  tutti::recv(comm, out, 1, 0);
  tutti::reduce(comm, std::span(in, 4), out, 0, {.timeout = 3s});
  tutti::gather_v(comm, out, data, std::vector<std::size_t>(4, 1), {}, 0, {.timeout = 3s});
#elif TUTTI_CASE == 1   // expect: a pointer does not say how many elements there are
  tutti::all_reduce(comm, in, out, 4, tutti::sum{});
#elif TUTTI_CASE == 2   // expect: a pointer does not say how many elements there are
  tutti::broadcast(comm, in, 4, 0);
#elif TUTTI_CASE == 3   // expect: a pointer does not say how many elements there are
  tutti::reduce(comm, in, out, 4, tutti::sum{}, 0);
#elif TUTTI_CASE == 4   // expect: a pointer does not say how many elements there are
  tutti::recv(comm, in, 4, 1, 0);
#elif TUTTI_CASE == 5   // expect: a pointer does not say how many elements there are
  tutti::all_gather(comm, in, 4);
#elif TUTTI_CASE == 6   // expect: a pointer does not say how many elements there are
  tutti::scatter(comm, in, 4, out, 4, 0);
#elif TUTTI_CASE == 7   // expect: a pointer does not say how many elements there are
  tutti::gather_v(comm, in, 4, out, numbers, numbers, 0);
#elif TUTTI_CASE == 8   // expect: a pointer does not say how many elements there are
  tutti::all_to_all_v(comm, in, numbers, numbers, out, numbers, numbers);
#elif TUTTI_CASE == 9   // expect: a pointer does not say how many elements there are
  tutti::send(comm, in, 4, 1, 0);
#elif TUTTI_CASE == 10  // expect: an array knows its type and size
  tutti::all_reduce(comm, data, out, 4, tutti::sum{});
#elif TUTTI_CASE == 11  // expect: an array knows its type and size
  tutti::broadcast(comm, data, data.size(), 0);
#elif TUTTI_CASE == 12  // expect: a handle of another library
  tutti::all_reduce(comm, data, foreign_sum);
#elif TUTTI_CASE == 13  // expect: a null pointer is not an array
  tutti::gather(comm, data, nullptr, 0);
#elif TUTTI_CASE == 14  // expect: an operation is expected here
  tutti::all_reduce(comm, data, out, "sum");
#endif
}
