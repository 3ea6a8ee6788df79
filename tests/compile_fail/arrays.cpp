// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Objects that cannot be arrays, as input, as output and in place.
#include <deque>
#include <list>
#include <span>
#include <utility>
#include <vector>

#include "tutti/tutti.hpp"

void call(tutti::communicator<tutti::loopback>& comm, std::vector<float>& in, std::vector<float>& out) {
  std::list<float> list(8);
  std::deque<float> deque(8);
  std::vector<bool> bits(8);
#ifdef TUTTI_CONTROL
  tutti::all_reduce(comm, in, out);
  tutti::all_reduce(comm, in, deque);
  tutti::scatter(comm, std::span<float const>(), std::span(out).first(1), 1);
#elif TUTTI_CASE == 1   // expect: the elements of this range can only be reached
  tutti::all_reduce(comm, list);
#elif TUTTI_CASE == 2   // expect: the elements of this range can only be reached
  tutti::all_reduce(comm, in, list);
#elif TUTTI_CASE == 3   // expect: the elements of this range can only be reached
  tutti::all_gather(comm, list, out);
#elif TUTTI_CASE == 4   // expect: the elements of this range can only be reached
  static_cast<void>(tutti::all_gather(comm, list));
#elif TUTTI_CASE == 5   // expect: std::vector<bool> stores bits
  tutti::all_reduce(comm, bits);
#elif TUTTI_CASE == 6   // expect: std::vector<bool> stores bits
  tutti::broadcast(comm, bits);
#elif TUTTI_CASE == 7   // expect: the output is a temporary
  tutti::all_reduce(comm, in, std::vector<float>(8));
#elif TUTTI_CASE == 8   // expect: the output is const
  tutti::gather(comm, in, std::as_const(out));
#elif TUTTI_CASE == 9   // expect: input and output have different element types
  tutti::scan(comm, in, std::span<double>());
#elif TUTTI_CASE == 10  // expect: a pointer does not say how many elements there are
  tutti::reduce_scatter(comm, in.data(), out);
#elif TUTTI_CASE == 11  // expect: a pointer does not say how many elements there are
  static_cast<void>(tutti::all_reduce(comm, in.data(), 8));
#elif TUTTI_CASE == 12  // expect: this argument is not an array
  static_cast<void>(tutti::scatter(comm, 5));
#elif TUTTI_CASE == 13  // expect: this argument is not an array
  static_cast<void>(tutti::all_to_all(comm, 5));
#elif TUTTI_CASE == 14  // expect: the output is a temporary
  tutti::recv(comm, std::vector<float>(8), 1);
#elif TUTTI_CASE == 15  // expect: the elements of this range can only be reached
  tutti::send(comm, list, 1);
#elif TUTTI_CASE == 16  // expect: a message is received into an array
  float value = 0;
  tutti::recv(comm, value, 1);
#elif TUTTI_CASE == 17  // expect: the output is const
  tutti::batch(comm).recv(std::as_const(in), 1);
#elif TUTTI_CASE == 18  // expect: the output is a temporary
  tutti::all_gather_v(comm, in, std::deque<float>(8), {});
#elif TUTTI_CASE == 19  // expect: the elements of this range can only be reached
  std::vector<std::list<float> > lists;
  tutti::all_reduce(comm, lists);
#elif TUTTI_CASE == 20  // expect: the input is a temporary
  static_cast<void>(tutti::isend(comm, std::deque<float>(8), 1));
#elif TUTTI_CASE == 21  // expect: the output is const
  tutti::recv(comm, std::as_const(deque), 1);
#elif TUTTI_CASE == 22  // expect: this array is not a contiguous range, which lists of arrays need
  std::vector<std::deque<float> > deques;
  tutti::all_reduce(comm, deques);
#elif TUTTI_CASE == 23  // expect: the output is const
  tutti::all_reduce(comm, in, std::as_const(deque));
#elif TUTTI_CASE == 24  // expect: the output is const
  tutti::scan(comm, in, tutti::strided(std::as_const(in).data(), 4, 2));
#elif TUTTI_CASE == 25  // expect: the input is a temporary
  static_cast<void>(tutti::all_reduce(tutti::async(comm), std::deque<float>(8), out));
#elif TUTTI_CASE == 26  // expect: the output is a temporary
  static_cast<void>(tutti::all_reduce(tutti::async(comm), in, std::vector<float>(8), tutti::options{}));
#elif TUTTI_CASE == 27  // expect: a list in braces has no type
  static_cast<void>(tutti::all_gather(comm, {1.0f, 2.0f}));
#endif
}
