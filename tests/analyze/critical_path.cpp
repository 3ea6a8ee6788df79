// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The fast search and the simulation agree on every schedule.
#include "tutti/analyze/critical_path.hpp"

#include <doctest/doctest.h>

#include "tutti/algorithm/registry.hpp"
#include "tutti/analyze/simulate.hpp"

using namespace tutti;
using namespace tutti::detail;
using namespace tutti::analyze;

TEST_CASE("the longest chains are those of the simulation") {
  for (int const ranks : {2, 3, 4, 5, 8, 13, 16, 31})
    for_each_schedule([&](algorithm_id id, collective c, dynamic_schedule s) {
      shape const of{ranks};
      double const bytes = s.chunks(of) * s.lanes(of);
      INFO(name(id), " ", name(c), ", ", ranks, " ranks");
      auto const [longest, busiest] = critical_path(s, of, 1);
      double const missing = s.lanes(of) > 1 ? 2.0 / 3 : 0;
      auto const check = [&](std::uint64_t ours, model const& m) {
        double const theirs = simulate(s, of, {bytes}, m).seconds;
        CHECK(static_cast<double>(ours) <= theirs + 1e-9);
        CHECK(static_cast<double>(ours) >= theirs * (1 - missing) - 1e-9);
      };
      check(longest.hops, {.alpha = 1, .beta = 0, .gamma = 0});
      check(longest.messages, {.alpha = 0, .beta = 0, .gamma = 0, .gap = 1});
      check(longest.sent, {.alpha = 0, .beta = 1, .gamma = 0});
      check(longest.combined, {.alpha = 0, .beta = 0, .gamma = 1});
    });
}

TEST_CASE("what goes from node to node is counted apart, and goes through the ports of its node") {
  auto const effort_of = [](algorithm_id id, node_sizes nodes) {
    return critical_path(find_schedule(id, collective::all_reduce), {8}, 1, nodes).longest;
  };
  // Partners at distance 1 and 2 share a node of consecutive ranks; those at distance 4 do where ranks are dealt out to four
  // nodes.
  effort const near = effort_of(algorithm_id::recursive_doubling, {2, true});
  CHECK(near.hops == 2);
  CHECK(near.far_hops == 1);
  CHECK(near.sent == 2);
  CHECK(near.far_sent == 4);  // of each of the four ranks
  CHECK(near.messages == 3);
  CHECK(near.far_messages == 1);
  effort const dealt = effort_of(algorithm_id::recursive_doubling, {4, false});
  CHECK(dealt.hops == 1);
  CHECK(dealt.far_hops == 2);
  CHECK(dealt.far_sent == 4);
  // In a ring, one rank of a node sends far where ranks are consecutive, and every rank does where they are not.
  CHECK(effort_of(algorithm_id::ring, {2, true}).far_sent < effort_of(algorithm_id::ring, {2, false}).far_sent);

  for_each_schedule([&](algorithm_id id, collective c, dynamic_schedule s) {
    INFO(name(id), " ", name(c));
    shape const of{8};
    effort const anywhere = critical_path(s, of, 1).longest, everywhere = critical_path(s, of, 1, {8}).longest;
    CHECK(everywhere.hops == 0);
    CHECK(everywhere.sent == 0);
    CHECK(everywhere.far_hops == anywhere.hops);
    CHECK(everywhere.far_sent >= anywhere.sent);
    if (s.lanes(of) == 1 && !s.pipelined) CHECK(everywhere.far_sent == anywhere.sent);
    CHECK(everywhere.messages == anywhere.messages);
    CHECK(everywhere.far_messages == anywhere.messages);
    CHECK(anywhere.far_messages == 0);
    CHECK(everywhere.combined == anywhere.combined);
  });
}

TEST_CASE("a further slice through a tree costs less than the first") {
  shape const of{16};
  auto const tree = find_schedule(algorithm_id::binomial_tree, collective::broadcast);
  std::uint64_t const first = critical_path(tree, of, 1).longest.sent, both = critical_path(tree, of, 2).longest.sent;
  CHECK(first == 4);
  CHECK(both > first);
  CHECK(both <= 2 * first);
}
