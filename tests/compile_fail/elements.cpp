// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Types that cannot be elements, in all_reduce, by value, and in messages.
#include <array>
#include <atomic>
#include <deque>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tutti/tutti.hpp"

struct point {
  double x, y;
};
struct named {
  std::string name;
};

void call(tutti::communicator<tutti::loopback>& comm) {
  point const here{1, 2};
#ifdef TUTTI_CONTROL
  auto const add = [](point const& a, point const& b) { return point{a.x + b.x, a.y + b.y}; };
  static_cast<void>(tutti::all_reduce(comm, here, add));
#elif TUTTI_CASE == 1   // expect: a pointer cannot be an element
  std::vector<int*> data(8);
  tutti::broadcast(comm, data);
#elif TUTTI_CASE == 2   // expect: a std::atomic cannot be an element
  std::array<std::atomic<int>, 4> data;
  tutti::all_reduce(comm, data);
#elif TUTTI_CASE == 3   // expect: a view such as std::span or std::string_view cannot be an element
  std::vector<std::string_view> names(1), all(4);
  tutti::all_gather(comm, names, all);
#elif TUTTI_CASE == 4   // expect: this operation cannot combine these elements
  static_cast<void>(tutti::all_reduce(comm, here));
#elif TUTTI_CASE == 5   // expect: this operation cannot combine these elements
  std::vector<point> data(8);
  tutti::all_reduce(comm, data);
#elif TUTTI_CASE == 6   // expect: elements travel as their bytes
  static_cast<void>(tutti::all_gather(comm, named{"a"}));
#elif TUTTI_CASE == 7   // expect: elements travel as their bytes
  std::vector<named> data(1);
  tutti::send(comm, data, 1);
#elif TUTTI_CASE == 8   // expect: a pointer cannot be an element
  tutti::send(comm, std::array<int*, 1>{}, 1);
#elif TUTTI_CASE == 9   // expect: a pointer does not say how many elements
  tutti::send(comm, &here, 1);
#elif TUTTI_CASE == 10  // expect: elements travel as their bytes
  named const got = tutti::recv<named>(comm, 1);
#elif TUTTI_CASE == 11  // expect: elements travel as their bytes
  static_cast<void>(comm.allocate<named>(8));
#elif TUTTI_CASE == 12  // expect: strings cannot be combined
  std::vector<std::string> names(8);
  tutti::all_reduce(comm, names);
#elif TUTTI_CASE == 13  // expect: put a call for each of the arrays into a tutti::batch
  std::vector<std::vector<double> > lists(2);
  tutti::broadcast(comm, lists);
#elif TUTTI_CASE == 14  // expect: a smart pointer does not say how many elements it points to
  auto const data = std::make_unique<float[]>(8);
  tutti::broadcast(comm, data);
#elif TUTTI_CASE == 15  // expect: recv<T> returns one element
  auto const got = tutti::recv<std::vector<double> >(comm, 1);
#elif TUTTI_CASE == 16  // expect: recv<T> returns one element
  auto const got = tutti::recv<std::string>(comm, 1);
#elif TUTTI_CASE == 17  // expect: an iterator means nothing on another rank
  std::vector<int> data(8);
  tutti::send(comm, data.begin(), 1);
#elif TUTTI_CASE == 18  // expect: an iterator means nothing on another rank
  std::deque<int> const data(8);
  static_cast<void>(tutti::all_gather(comm, data.begin()));
#elif TUTTI_CASE == 19  // expect: std::ranges::subrange(first, last)
  std::vector<int> data(8);
  tutti::all_reduce(comm, data.begin(), data.end());
#elif TUTTI_CASE == 20  // expect: pass what its get() returns
  int one = 1;
  static_cast<void>(tutti::broadcast(comm, std::ref(one)));
#elif TUTTI_CASE == 21  // expect: the elements are volatile
  int volatile some[4]{};
  tutti::all_reduce(comm, std::span(some));
#elif TUTTI_CASE == 22  // expect: declare their struct with alignas(64) or less
  struct alignas(128) wide {
    double x;
  };
  std::vector<wide> data(8);
  tutti::all_reduce(comm, data, [](wide const& a, wide const& b) { return wide{a.x + b.x}; });
#endif
}
