// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Objects that cannot take the place of a communicator.
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "tutti/tutti.hpp"

void call(tutti::communicator<tutti::loopback>& comm, std::vector<float>& data) {
  tutti::communicator<tutti::loopback> const& fixed = comm;
  std::optional<tutti::communicator<tutti::loopback>> row = comm.split(0);
  float const mine = 1;
#ifdef TUTTI_CONTROL
  auto const some = fixed.subgroup({0});
  auto const memory = fixed.allocate<float>(8);
  tutti::all_reduce(*row, data);
  tutti::work sum = tutti::all_reduce(tutti::async(comm), data);
#elif TUTTI_CASE == 1   // expect: this communicator is const
  tutti::all_reduce(fixed, data);
#elif TUTTI_CASE == 2   // expect: this communicator is const
  tutti::barrier(fixed);
#elif TUTTI_CASE == 3   // expect: this communicator is const
  tutti::send(fixed, data, 1);
#elif TUTTI_CASE == 4   // expect: this communicator is const
  tutti::mesh grid(fixed, {{"x", -1}});
#elif TUTTI_CASE == 5   // expect: the first argument is not a communicator
  tutti::broadcast(row, data);
#elif TUTTI_CASE == 6   // expect: the first argument is not a communicator
  static_cast<void>(tutti::all_gather(&comm, 5));
#elif TUTTI_CASE == 7   // expect: cannot return its result
  static_cast<void>(tutti::all_reduce(tutti::async(comm), mine));
#elif TUTTI_CASE == 8   // expect: cannot return its result
  static_cast<void>(tutti::all_gather(tutti::prepared(comm), data));
#elif TUTTI_CASE == 9   // expect: the input is a temporary
  tutti::work sum = tutti::all_reduce(tutti::async(comm), std::vector<float>(8), data);
#elif TUTTI_CASE == 10  // expect: a value that is sent later must stay
  tutti::work sent = tutti::isend(comm, mine, 1);
#elif TUTTI_CASE == 11  // expect: this form of the call cannot be asynchronous
  tutti::send_recv(tutti::async(comm), data, 1, std::span(data), 1);
#elif TUTTI_CASE == 12  // expect: a list of arrays cannot be prepared
  std::vector<std::vector<float>> list;
  static_cast<void>(tutti::all_reduce(tutti::prepared(comm), list));
#elif TUTTI_CASE == 13  // expect: this communicator is const
  fixed.split(0);
#elif TUTTI_CASE == 14  // expect: this communicator is const
  fixed.shrink();
#elif TUTTI_CASE == 15  // expect: this communicator is const
  fixed.agree(1);
#elif TUTTI_CASE == 16  // expect: this communicator is const
  fixed.revoke("no reason");
#elif TUTTI_CASE == 17  // expect: pass a reference
  auto copy = comm;
#elif TUTTI_CASE == 18  // expect: the first argument is not a communicator
  tutti::all_reduce(data);
#elif TUTTI_CASE == 19  // expect: the first argument is not a communicator
  tutti::all_reduce(tutti::async, data);
#elif TUTTI_CASE == 20  // expect: this communicator is const
  tutti::work sum = tutti::all_reduce(tutti::async(fixed), data);
#elif TUTTI_CASE == 21  // expect: take a communicator that is in a variable
  tutti::work sum = tutti::all_reduce(tutti::async(comm.split(0).value()), data);
#elif TUTTI_CASE == 22  // expect: the first argument is not a communicator
  tutti::batch halos(&comm);
#elif TUTTI_CASE == 23  // expect: this communicator is const
  tutti::batch halos(fixed);
#elif TUTTI_CASE == 24  // expect: it is barrier(communicator, options)
  tutti::barrier();
#elif TUTTI_CASE == 25  // expect: this form of the call cannot be asynchronous
  static_cast<void>(tutti::recv<double>(tutti::async(comm), 1));
#elif TUTTI_CASE == 26  // expect: run_threads passes a
  tutti::run_threads(2, [](auto by_value) { tutti::barrier(by_value); });
#elif TUTTI_CASE == 27  // expect: run_local passes a
  tutti::run_local(2, [](tutti::communicator<tutti::loopback>&) {});
#elif TUTTI_CASE == 28  // expect: the axes of a mesh have names
  tutti::mesh grid(comm, {2, 2});
#elif TUTTI_CASE == 29  // expect: do not tell each other where they run
  static_cast<void>(tutti::topology_of(comm));
#elif TUTTI_CASE == 30  // expect: or, for a single value, recv<type>(communicator, rank, tag, options)
  int const value = tutti::recv(comm, 1);
#endif
}
