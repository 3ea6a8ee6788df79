// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Nodes as the machine has them: one here, two if two_nodes.sh runs this test.
// ranks: 4
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <mpi.h>
#include <string>
#include <type_traits>
#include <vector>

#include "collective/mixed.hpp"
#include "collective/registered.hpp"
#include "mpi/ranks.hpp"

using namespace tutti;
using namespace tutti::detail;
using namespace tutti::testing;

namespace {

using machine_name = std::array<char, MPI_MAX_PROCESSOR_NAME>;

// Of all ranks.
template <class Communicator>
std::vector<machine_name> machine_names_of(Communicator& comm) {
  std::vector<machine_name> mine(1), all(static_cast<std::size_t>(comm.size()));
  int length = 0;
  MPI_Get_processor_name(mine[0].data(), &length);
  all_gather(comm, mine, all);
  return all;
}

// The local ranks are those of one host, in rank order.
template <class Communicator>
void check_local_rank(Communicator& comm) {
  std::vector<machine_name> const hosts = machine_names_of(comm);
  int before = 0, here = 0, first = comm.size();
  for (int r = 0; r < comm.size(); ++r) {
    if (hosts[static_cast<std::size_t>(r)] != hosts[static_cast<std::size_t>(comm.rank())]) continue;
    first = std::min(first, r);
    ++here;
    before += r < comm.rank() ? 1 : 0;
  }
  CHECK(comm.local_rank() == before);
  CHECK(comm.local_size() == here);
  CHECK(comm.node() == first);
  auto const on_node = comm.split(comm.node()).value();
  CHECK(on_node.rank() == before);
  CHECK(on_node.size() == here);
}

}  // namespace

TEST_CASE("nodes are the machines that ranks are on") {
  auto comm = init<hierarchical>();
  node_map const& nodes = comm.engine().transport().nodes();
  std::vector<machine_name> const hosts = machine_names_of(comm);
  for (int a = 0; a < comm.size(); ++a)
    for (int b = 0; b < comm.size(); ++b)
      CHECK((nodes.node_of(a) == nodes.node_of(b)) ==
            (hosts[static_cast<std::size_t>(a)] == hosts[static_cast<std::size_t>(b)]));
  MESSAGE(nodes.text());
}

TEST_CASE("every collective gives the right result over the nodes of the machine") {
  for (int const ranks : {1, 2, 3, 4}) {
    CAPTURE(ranks);
    CHECK(on_ranks(ranks, hierarchical_ranks, [](auto& comm) {
            conformance<std::remove_reference_t<decltype(comm)>> check(comm);
            for (collective const c : every_collective)
              for (std::size_t const count : {1u, 1000u, 40'000u})
                for (int const root : some_roots(c, comm.size()))
                  for (bool const in_place : {false, true}) {
                    trial const t{.count = count, .root = root, .in_place = in_place, .shared = in_place};
                    check.template check<std::int32_t>(c, t, sum{});
                    check.template check_ragged<affine>(c, t, compose{});
                  }
          }) == "");
  }
}

TEST_CASE("random sequences of collectives do not disturb each other over the nodes of the machine") {
  for (int const ranks : {2, 3, 4})
    CHECK(on_ranks(ranks, hierarchical_ranks, [&](auto& comm) { check_random_sequence(comm, 7, 200); }) == "");
}

TEST_CASE("local ranks are those of the machine, in the order of the communicator") {
  auto& all = testing::world();
  check_local_rank(all);
  auto half = all.split(all.rank() % 2, -all.rank()).value();
  check_local_rank(half);
  auto pairs = all.split(all.rank() / 2).value();
  check_local_rank(pairs);
}
