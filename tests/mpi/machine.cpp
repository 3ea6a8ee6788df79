// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Nodes as the machine has them: one here, two where two_nodes.sh runs this.
// ranks: 4
#include <doctest/doctest.h>

#include <cstdint>
#include <string>
#include <unistd.h>

#include "collective/mixed.hpp"
#include "collective/registered.hpp"
#include "mpi/ranks.hpp"

using namespace tutti;
using namespace tutti::testing;

namespace {

template <class F>
std::string on_nodes(int ranks, F&& f) {
  return on_ranks(ranks, [](MPI_Comm part) { return from_mpi<hierarchical>(part); }, f);
}

}  // namespace

TEST_CASE("nodes are the machines that ranks are on") {
  auto comm = init<hierarchical>();
  node_map const& nodes = comm.group().transport().nodes();
  char mine[64]{};
  ::gethostname(mine, sizeof mine - 1);
  std::vector<char> all(sizeof mine * static_cast<std::size_t>(comm.size()));
  all_gather(comm, mine, all);
  for (int a = 0; a < comm.size(); ++a)
    for (int b = 0; b < comm.size(); ++b) {
      auto const host = [&](int rank) { return std::string(&all[sizeof mine * static_cast<std::size_t>(rank)]); };
      CHECK((nodes.node_of(a) == nodes.node_of(b)) == (host(a) == host(b)));
    }
  MESSAGE(nodes.text());
}

TEST_CASE("every collective gives the right result over the nodes of the machine") {
  for (int const ranks : {1, 2, 3, 4}) {
    CAPTURE(ranks);
    CHECK(on_nodes(ranks, [](auto& comm) {
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
    CHECK(on_nodes(ranks, [&](auto& comm) { check_random_sequence(comm, 7, 200); }) == "");
}
